package pods

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/gantry-project/gantry/internal/apiserver/registry"
)

// updateRules are what an update through one subresource may change and how it is validated.
type updateRules interface {
	// prepareForUpdate takes from the stored Pod all that this endpoint may not change.
	prepareForUpdate(p, old *v1.Pod)
	validate(p, old *v1.Pod) field.ErrorList
	warnings(p, old *v1.Pod) []string
	resetFields() fieldpath.Filter
}

// updateREST is an endpoint with get and update over one part of the Pod.
type updateREST struct {
	noDestroy
	pods  *podStore
	rules updateRules
}

var (
	_ rest.Patcher                   = &updateREST{}
	_ rest.ResetFieldsFilterStrategy = &updateREST{}
)

func (r *updateREST) New() runtime.Object { return &v1.Pod{} }

// Get returns the Pod.
func (r *updateREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.pods.Get(ctx, name, options)
}

// Update writes the part of the Pod that this endpoint is for; it never creates.
func (r *updateREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	validateCreate rest.ValidateObjectFunc, validateUpdate rest.ValidateObjectUpdateFunc, _ bool,
	options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	s := *r.pods.Store
	s.UpdateStrategy = subresourceStrategy{registry.NewSubresourceStrategy(r.pods.UpdateStrategy),
		r.rules}
	return s.Update(ctx, name, info, validateCreate, validateUpdate, false, options)
}

// GetResetFieldsFilter names what server-side apply may own through this endpoint.
func (r *updateREST) GetResetFieldsFilter() map[fieldpath.APIVersion]fieldpath.Filter {
	return map[fieldpath.APIVersion]fieldpath.Filter{"v1": r.rules.resetFields()}
}

// ConvertToTable prints as the Pod's main endpoint does.
func (r *updateREST) ConvertToTable(ctx context.Context, o, options runtime.Object) (*metav1.Table, error) {
	return r.pods.ConvertToTable(ctx, o, options)
}

// subresourceStrategy is the Pod's strategy with the rules of one part.
type subresourceStrategy struct {
	registry.SubresourceStrategy
	rules updateRules
}

func (s subresourceStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	p, previous := obj.(*v1.Pod), old.(*v1.Pod)
	s.rules.prepareForUpdate(p, previous)
	bumpGeneration(p, previous)
}

func (s subresourceStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return s.rules.validate(obj.(*v1.Pod), old.(*v1.Pod))
}

func (s subresourceStrategy) WarningsOnUpdate(_ context.Context, obj, old runtime.Object) []string {
	return s.rules.warnings(obj.(*v1.Pod), old.(*v1.Pod))
}
