package registry

import (
	"context"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// statusREST is a kind's status endpoint: the main store, written by another strategy. It offers
// get, update and patch only.
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

func newStatusREST(k *resourcedef.Kind, s *Store) *statusREST { return &statusREST{store: s, kind: k} }

// writer is the main store as it is now with another strategy for updates. It is made for each
// write, so that no rule of the main store is missing.
func (s *statusREST) writer(update rest.RESTUpdateStrategy) *genericregistry.Store {
	w := *s.store.Store
	w.UpdateStrategy = update
	w.BeginUpdate = nil // holds what a spec asks for, which is not written here
	return &w
}

func (s *statusREST) strategy() *statusStrategy {
	return &statusStrategy{strategy{ObjectTyper: s.store.CreateStrategy, kind: s.kind}}
}

func (s *statusREST) New() runtime.Object { return s.kind.Types.New() }

// Destroy leaves the shared store to its main endpoint.
func (s *statusREST) Destroy() {}

func (s *statusREST) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	return s.store.Get(ctx, name, o)
}

// Update writes the status of an object that exists.
func (s *statusREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool,
	o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return s.writer(s.strategy()).Update(ctx, name, info, create, update, false, o)
}

func (s *statusREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.strategy().GetResetFields()
}

func (s *statusREST) ConvertToTable(ctx context.Context, obj, o runtime.Object) (*metav1.Table, error) {
	return s.store.ConvertToTable(ctx, obj, o)
}

// statusStrategy writes metadata and status, and keeps everything else.
type statusStrategy struct{ strategy }

func (s *statusStrategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	v, previous := reflect.ValueOf(obj).Elem(), reflect.ValueOf(old.DeepCopyObject()).Elem()
	for i := range v.NumField() {
		switch v.Type().Field(i).Name {
		case "TypeMeta", "ObjectMeta", "Status":
		default:
			v.Field(i).Set(previous.Field(i))
		}
	}
	if p := s.kind.Rules.PrepareStatus; p != nil {
		p(ctx, obj, old)
	}
	setGeneration(obj, generation(old))
}

func (s *statusStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	if v := s.kind.Rules.ValidateStatus; v != nil {
		return v(ctx, obj, old)
	}
	return nil
}

func (s *statusStrategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

func (s *statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resetFields(s.kind, "spec")
}

// UpdatePart writes an object by a rule of the caller's own in place of the status rule.
func (s *statusREST) UpdatePart(ctx context.Context, u resourcedef.PartUpdate) (runtime.Object, error) {
	out, _, err := s.writer(&partStrategy{*s.strategy(), u.Prepare}).Update(ctx, u.Name, u.Info, u.Create, u.Update,
		false, u.Options)
	return out, err
}

// partStrategy writes what its rule leaves of an update.
type partStrategy struct {
	statusStrategy
	prepare func(obj, old runtime.Object)
}

func (p *partStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	p.prepare(obj, old)
	setGeneration(obj, generation(old))
}
