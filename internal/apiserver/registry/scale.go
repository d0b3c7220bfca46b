package registry

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

// scale is the scale endpoint of a kind with replicas: autoscaling/v1 Scale, read from and written to the object.
type scale struct {
	store *Store
	kind  *kind.Kind
}

var (
	_ rest.Getter                   = &scale{}
	_ rest.Patcher                  = &scale{}
	_ rest.GroupVersionKindProvider = &scale{}
)

// newScale makes the endpoint; nil for kinds without replicas.
func newScale(k *kind.Kind, s *Store) *scale {
	if _, ok := counts(k.Types.New()); !ok {
		return nil
	}
	return &scale{store: s, kind: k}
}

// count is how many replicas an object wants and has.
type count struct {
	want     **int32
	have     int32
	selector string
}

// counts finds the replicas of an object; false for kinds without.
func counts(obj runtime.Object) (count, bool) {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return count{&o.Spec.Replicas, o.Status.Replicas, selectorText(o.Spec.Selector)}, true
	case *appsv1.ReplicaSet:
		return count{&o.Spec.Replicas, o.Status.Replicas, selectorText(o.Spec.Selector)}, true
	case *appsv1.StatefulSet:
		return count{&o.Spec.Replicas, o.Status.Replicas, selectorText(o.Spec.Selector)}, true
	case *corev1.ReplicationController:
		return count{&o.Spec.Replicas, o.Status.Replicas, labels.Set(o.Spec.Selector).AsSelector().String()}, true
	}
	return count{}, false
}

func selectorText(s *metav1.LabelSelector) string {
	sel, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return ""
	}
	return sel.String()
}

// GroupVersionKind says that the endpoint speaks autoscaling/v1 Scale, whatever group it lies in.
func (s *scale) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return autoscalingv1.SchemeGroupVersion.WithKind("Scale")
}

func (s *scale) New() runtime.Object { return &autoscalingv1.Scale{} }

// Destroy leaves the shared store to its main endpoint.
func (s *scale) Destroy() {}

func (s *scale) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	obj, err := s.store.Get(ctx, name, o)
	if err != nil {
		return nil, err
	}
	return s.of(obj)
}

// Update changes the number of replicas through the main store, so that admission, generation and ownership are as for the object.
func (s *scale) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	obj, _, err := s.store.Update(ctx, name, &scaleUpdate{s, info, name},
		s.validateCreate(create), s.validateUpdate(update), false, o)
	if err != nil {
		return nil, false, err
	}
	out, err := s.of(obj)
	return out, false, err
}

func (s *scale) ConvertToTable(ctx context.Context, obj, o runtime.Object) (*metav1.Table, error) {
	return (&table{Table: scaleTable(), resource: autoscalingv1.Resource("scales")}).ConvertToTable(ctx, obj, o)
}

// of is the Scale of an object.
func (s *scale) of(obj runtime.Object) (*autoscalingv1.Scale, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	c, ok := counts(obj)
	if !ok {
		return nil, fmt.Errorf("%T has no replicas", obj)
	}
	out := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name: m.GetName(), Namespace: m.GetNamespace(), UID: m.GetUID(),
			ResourceVersion: m.GetResourceVersion(), CreationTimestamp: m.GetCreationTimestamp(),
		},
		Status: autoscalingv1.ScaleStatus{Replicas: c.have, Selector: c.selector},
	}
	if *c.want != nil {
		out.Spec.Replicas = **c.want
	}
	out.ManagedFields, err = s.fields(m.GetManagedFields()).ToSubresource()
	return out, err
}

// fields maps field ownership between the object and its scale.
func (s *scale) fields(entries []metav1.ManagedFieldsEntry) *managedfields.ScaleHandler {
	gv := schema.GroupVersion{Group: s.kind.Group, Version: s.kind.Version}
	return managedfields.NewScaleHandler(entries, gv, managedfields.ResourcePathMappings{gv.String(): fieldpath.MakePathOrDie("spec", "replicas")})
}

func (s *scale) validateCreate(f rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		sc, err := s.of(obj)
		if err != nil || f == nil {
			return err
		}
		return f(ctx, sc)
	}
}

func (s *scale) validateUpdate(f rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return func(ctx context.Context, obj, old runtime.Object) error {
		sc, err := s.of(obj)
		if err != nil || f == nil {
			return err
		}
		was, err := s.of(old)
		if err != nil {
			return err
		}
		return f(ctx, sc, was)
	}
}

// scaleUpdate applies an update of the Scale to the object it belongs to.
type scaleUpdate struct {
	scale *scale
	info  rest.UpdatedObjectInfo
	name  string
}

func (u *scaleUpdate) Preconditions() *metav1.Preconditions { return u.info.Preconditions() }

func (u *scaleUpdate) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	obj := old.DeepCopyObject()
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	if m.GetResourceVersion() == "" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: u.scale.kind.Group, Resource: u.scale.kind.Resource}, u.name)
	}
	was, err := u.scale.of(obj)
	if err != nil {
		return nil, err
	}
	changed, err := u.info.UpdatedObject(ctx, was)
	if err != nil {
		return nil, err
	}
	sc, ok := changed.(*autoscalingv1.Scale)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected input object type to be Scale, but %T", changed))
	}
	if errs := validateScale(sc); len(errs) > 0 {
		return nil, apierrors.NewInvalid(autoscalingv1.SchemeGroupVersion.WithKind("Scale").GroupKind(), u.name, errs)
	}
	if sc.ResourceVersion != "" {
		m.SetResourceVersion(sc.ResourceVersion)
	}
	if sc.UID != "" {
		m.SetUID(sc.UID)
	}
	c, _ := counts(obj)
	*c.want = &sc.Spec.Replicas
	entries, err := u.scale.fields(m.GetManagedFields()).ToParent(sc.ManagedFields)
	if err != nil {
		return nil, err
	}
	m.SetManagedFields(entries)
	return obj, nil
}

func validateScale(sc *autoscalingv1.Scale) field.ErrorList {
	if sc.Spec.Replicas < 0 {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), sc.Spec.Replicas, "must be greater than or equal to 0")}
	}
	return nil
}
