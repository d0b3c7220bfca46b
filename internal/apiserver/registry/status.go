package registry

import (
	"context"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// statusREST is the status subresource: the main store with statusStrategy for updates. It serves
// get, update and patch.
type statusREST struct {
	store *Store
	kind  *resourcedef.Kind
}

var (
	_ rest.Getter              = &statusREST{}
	_ rest.Patcher             = &statusREST{}
	_ rest.TableConvertor      = &statusREST{}
	_ rest.ResetFieldsStrategy = &statusREST{}
	_ resourcedef.PartUpdater  = &statusREST{}
)

// newStatusREST returns the status subresource of a kind over its main store.
func newStatusREST(k *resourcedef.Kind, s *Store) *statusREST { return &statusREST{store: s, kind: k} }

// writer returns a copy of the main store, as it is now, with another strategy for updates. A copy
// per write keeps all other rules of the main store.
func (s *statusREST) writer(update rest.RESTUpdateStrategy) *genericregistry.Store {
	w := *s.store.Store
	w.UpdateStrategy = update
	// they allocate for the spec (cluster IPs), which this endpoint does not write
	w.BeginCreate, w.BeginUpdate = nil, nil
	return &w
}

// strategy returns the strategy of status updates.
func (s *statusREST) strategy() *statusStrategy {
	return &statusStrategy{strategy{ObjectTyper: s.store.CreateStrategy, kind: s.kind}}
}

// New implements rest.Storage.
func (s *statusREST) New() runtime.Object { return s.kind.Types.New() }

// Destroy implements rest.Storage. The main endpoint destroys the shared store.
func (s *statusREST) Destroy() {}

// Get implements rest.Getter.
func (s *statusREST) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	return s.store.Get(ctx, name, o)
}

// Update implements rest.Updater. It never creates the object.
func (s *statusREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool,
	o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return s.writer(s.strategy()).Update(ctx, name, info, create, update, false, o)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (s *statusREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.strategy().GetResetFields()
}

// ConvertToTable implements rest.TableConvertor.
func (s *statusREST) ConvertToTable(ctx context.Context, obj, o runtime.Object) (*metav1.Table, error) {
	return s.store.ConvertToTable(ctx, obj, o)
}

// statusStrategy updates metadata and status and keeps everything else of the stored object.
type statusStrategy struct{ strategy }

// PrepareForUpdate implements rest.RESTUpdateStrategy.
func (s *statusStrategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	v, previous := reflect.ValueOf(obj).Elem(), reflect.ValueOf(old.DeepCopyObject()).Elem()
	for i := range v.NumField() {
		switch v.Type().Field(i).Name {
		case "TypeMeta", "ObjectMeta", "Status":
		default:
			v.Field(i).Set(previous.Field(i))
		}
	}
	if slices.Contains(s.kind.Types.StatusResetFields, "metadata") {
		metav1.ResetObjectMetaForStatus(structField(obj, "ObjectMeta").Addr().Interface().(*metav1.ObjectMeta),
			previous.FieldByName("ObjectMeta").Addr().Interface().(*metav1.ObjectMeta))
	}
	if p := s.kind.Rules.PrepareStatus; p != nil {
		p(ctx, obj, old)
	}
	setGeneration(obj, generation(old))
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (s *statusStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	if v := s.kind.Rules.ValidateStatus; v != nil {
		return v(ctx, obj, old)
	}
	return nil
}

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (s *statusStrategy) WarningsOnUpdate(_ context.Context, obj, _ runtime.Object) []string {
	return warnStatusAddresses(obj)
}

// GetResetFields implements rest.ResetFieldsStrategy: managers own nothing here that the endpoint
// ignores.
func (s *statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resetFields(s.kind, append([]string{"spec"}, s.kind.Types.StatusResetFields...))
}

// UpdatePart implements resourcedef.PartUpdater.
func (s *statusREST) UpdatePart(ctx context.Context, u resourcedef.PartUpdate) (runtime.Object, error) {
	out, _, err := s.writer(&partStrategy{*s.strategy(), u.Prepare}).Update(ctx, u.Name, u.Info, u.Create, u.Update,
		false, u.Options)
	return out, err
}

// partStrategy is statusStrategy with another rule for what an update keeps of the stored object.
type partStrategy struct {
	statusStrategy
	prepare func(obj, old runtime.Object)
}

// PrepareForUpdate implements rest.RESTUpdateStrategy.
func (p *partStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	p.prepare(obj, old)
	setGeneration(obj, generation(old))
}
