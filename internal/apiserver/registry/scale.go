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

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// scaleREST is the scale subresource: autoscaling/v1 Scale, read from and written to spec.replicas
// of the parent object.
type scaleREST struct {
	store *Store
	kind  *resourcedef.Kind
}

var (
	_ rest.Getter                   = &scaleREST{}
	_ rest.Patcher                  = &scaleREST{}
	_ rest.GroupVersionKindProvider = &scaleREST{}
)

// newScaleREST returns the scale subresource; nil for kinds without replicas.
func newScaleREST(k *resourcedef.Kind, s *Store) *scaleREST {
	if _, ok := replicasOf(k.Types.New()); !ok {
		return nil
	}
	return &scaleREST{store: s, kind: k}
}

// replicaCounts is the desired and the current number of replicas of an object.
type replicaCounts struct {
	want     **int32 // &spec.replicas, to be read and set
	have     int32   // status.replicas
	selector string  // of the Pods, as text
}

// replicasOf returns the replicas of an object; false for kinds without.
func replicasOf(obj runtime.Object) (replicaCounts, bool) {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return replicaCounts{&o.Spec.Replicas, o.Status.Replicas, selectorText(o.Spec.Selector)}, true
	case *appsv1.ReplicaSet:
		return replicaCounts{&o.Spec.Replicas, o.Status.Replicas, selectorText(o.Spec.Selector)}, true
	case *appsv1.StatefulSet:
		return replicaCounts{&o.Spec.Replicas, o.Status.Replicas, selectorText(o.Spec.Selector)}, true
	case *corev1.ReplicationController:
		return replicaCounts{&o.Spec.Replicas, o.Status.Replicas, labels.Set(o.Spec.Selector).AsSelector().String()},
			true
	}
	return replicaCounts{}, false
}

// selectorText returns a label selector as text; "" if it is invalid.
func selectorText(s *metav1.LabelSelector) string {
	sel, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return ""
	}
	return sel.String()
}

// GroupVersionKind implements rest.GroupVersionKindProvider: autoscaling/v1 Scale in every group.
func (s *scaleREST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return autoscalingv1.SchemeGroupVersion.WithKind("Scale")
}

// New implements rest.Storage.
func (s *scaleREST) New() runtime.Object { return &autoscalingv1.Scale{} }

// Destroy implements rest.Storage. The main endpoint destroys the shared store.
func (s *scaleREST) Destroy() {}

// Get implements rest.Getter.
func (s *scaleREST) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	obj, err := s.store.Get(ctx, name, o)
	if err != nil {
		return nil, err
	}
	return s.scaleFromObject(obj)
}

// Update implements rest.Updater. It updates the parent object through the main store, so that
// admission, generation and managed fields are as for any update of it.
func (s *scaleREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool,
	o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	obj, _, err := s.store.Update(ctx, name, &scaleUpdatedObjectInfo{s, info, name},
		s.validateCreate(create), s.validateUpdate(update), false, o)
	if err != nil {
		return nil, false, err
	}
	out, err := s.scaleFromObject(obj)
	return out, false, err
}

// ConvertToTable implements rest.TableConvertor.
func (s *scaleREST) ConvertToTable(ctx context.Context, obj, o runtime.Object) (*metav1.Table, error) {
	return (&tableConvertor{Table: scaleTable(), resource: autoscalingv1.Resource("scales")}).ConvertToTable(ctx,
		obj, o)
}

// scaleFromObject returns the Scale of a parent object, without managed fields.
func (s *scaleREST) scaleFromObject(obj runtime.Object) (*autoscalingv1.Scale, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	c, ok := replicasOf(obj)
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
	return out, nil
}

// managedFieldsHandler converts managed fields between the parent object and its Scale.
func (s *scaleREST) managedFieldsHandler(entries []metav1.ManagedFieldsEntry) *managedfields.ScaleHandler {
	gv := schema.GroupVersion{Group: s.kind.Group, Version: s.kind.Version}
	return managedfields.NewScaleHandler(entries, gv,
		managedfields.ResourcePathMappings{gv.String(): fieldpath.MakePathOrDie("spec", "replicas")})
}

// validateCreate calls f, the admission of the request, with the Scale of the object.
func (s *scaleREST) validateCreate(f rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		sc, err := s.scaleFromObject(obj)
		if err != nil || f == nil {
			return err
		}
		return f(ctx, sc)
	}
}

// validateUpdate calls f, the admission of the request, with the Scales of the two objects.
func (s *scaleREST) validateUpdate(f rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return func(ctx context.Context, obj, old runtime.Object) error {
		sc, err := s.scaleFromObject(obj)
		if err != nil || f == nil {
			return err
		}
		previous, err := s.scaleFromObject(old)
		if err != nil {
			return err
		}
		return f(ctx, sc, previous)
	}
}

// scaleUpdatedObjectInfo applies an update of the Scale to its parent object.
type scaleUpdatedObjectInfo struct {
	scale *scaleREST
	info  rest.UpdatedObjectInfo
	name  string
}

// Preconditions implements rest.UpdatedObjectInfo.
func (u *scaleUpdatedObjectInfo) Preconditions() *metav1.Preconditions { return u.info.Preconditions() }

// UpdatedObject implements rest.UpdatedObjectInfo. The Scale's resourceVersion and UID, if set,
// become preconditions of the parent's update.
func (u *scaleUpdatedObjectInfo) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	obj := old.DeepCopyObject()
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	if m.GetResourceVersion() == "" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: u.scale.kind.Group,
			Resource: u.scale.kind.Resource}, u.name)
	}
	previous, err := u.scale.scaleFromObject(obj)
	if err != nil {
		return nil, err
	}
	previous.ManagedFields, err = u.scale.managedFieldsHandler(m.GetManagedFields()).ToSubresource()
	if err != nil {
		return nil, err
	}
	changed, err := u.info.UpdatedObject(ctx, previous)
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
	c, _ := replicasOf(obj)
	*c.want = &sc.Spec.Replicas
	entries, err := u.scale.managedFieldsHandler(m.GetManagedFields()).ToParent(sc.ManagedFields)
	if err != nil {
		return nil, err
	}
	m.SetManagedFields(entries)
	return obj, nil
}

// validateScale checks spec.replicas.
func validateScale(sc *autoscalingv1.Scale) field.ErrorList {
	if sc.Spec.Replicas < 0 {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), sc.Spec.Replicas,
			"must be greater than or equal to 0")}
	}
	return nil
}
