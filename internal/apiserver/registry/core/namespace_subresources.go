package core

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/gantry-project/gantry/internal/apiserver/registry"
	"github.com/gantry-project/gantry/internal/apiserver/registry/pods"
	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

func namespaceSubresources(d resourcedef.Deps) map[string]rest.Storage {
	return map[string]rest.Storage{"finalize": &finalizeREST{store: pods.Generic(d.Store)}}
}

// namespaceIsEmpty lets an update remove a namespace that is being deleted once nothing holds it,
// neither spec.finalizers nor metadata's.
func namespaceIsEmpty(ctx context.Context, key string, obj, existing runtime.Object) bool {
	ns, ok := obj.(*v1.Namespace)
	return ok && len(ns.Spec.Finalizers) == 0 && genericregistry.ShouldDeleteDuringUpdate(ctx, key, obj, existing)
}

// finalizeREST is namespaces/finalize: who has cleaned a namespace takes its name off
// spec.finalizers there.
type finalizeREST struct{ store *genericregistry.Store }

var (
	_ rest.Updater             = &finalizeREST{}
	_ rest.ResetFieldsStrategy = &finalizeREST{}
)

func (r *finalizeREST) New() runtime.Object { return &v1.Namespace{} }
func (r *finalizeREST) Destroy()            {}

// Update writes spec.finalizers of the namespace.
func (r *finalizeREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	validateCreate rest.ValidateObjectFunc, validateUpdate rest.ValidateObjectUpdateFunc, _ bool,
	options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	s := *r.store
	s.UpdateStrategy = finalizeStrategy{registry.NewSubresourceStrategy(r.store.UpdateStrategy)}
	return s.Update(ctx, name, info, validateCreate, validateUpdate, false, options)
}

// GetResetFields says that status is not written here.
func (r *finalizeREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{"v1": fieldpath.NewSet(fieldpath.MakePathOrDie("status"))}
}

type finalizeStrategy struct{ registry.SubresourceStrategy }

func (finalizeStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	obj.(*v1.Namespace).Status = old.(*v1.Namespace).Status
}

func (finalizeStrategy) ValidateUpdate(_ context.Context, obj, _ runtime.Object) field.ErrorList {
	ns := obj.(*v1.Namespace)
	return append(podspec.ValidateFinalizers(ns.Finalizers, field.NewPath("metadata", "finalizers")),
		validateFinalizers(ns, true)...)
}

func (finalizeStrategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// WrapNamespaces makes the deletion of a namespace two steps. The first marks it Terminating and
// keeps it while spec.finalizers names anybody; the namespace controller empties it and takes its
// name off through /finalize. Deleting many namespaces by one call is not offered.
func WrapNamespaces(s rest.StandardStorage) rest.Storage {
	full := pods.Generic(s)
	return &namespaceREST{Store: full, delegate: s}
}

// namespaceREST hides DeleteCollection of the store by shadowing it with another shape.
type namespaceREST struct {
	*genericregistry.Store
	delegate rest.StandardStorage
}

// DeleteCollection is not what rest.CollectionDeleter asks for: the library then offers no
// deletecollection.
func (r *namespaceREST) DeleteCollection() {}

// Create goes through the rules around the store.
func (r *namespaceREST) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc,
	options *metav1.CreateOptions) (runtime.Object, error) {
	return r.delegate.Create(ctx, obj, validate, options)
}

// Update goes through the rules around the store.
func (r *namespaceREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	validateCreate rest.ValidateObjectFunc, validateUpdate rest.ValidateObjectUpdateFunc, force bool,
	options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.delegate.Update(ctx, name, info, validateCreate, validateUpdate, force, options)
}

// Delete marks the namespace, or removes it when it is marked and nothing holds it.
func (r *namespaceREST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	o, err := r.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, false, err
	}
	ns, ok := o.(*v1.Namespace)
	if !ok {
		return nil, false,
			errors.NewInternalError(fmt.Errorf("unexpected object type %T in the store of namespaces", o))
	}
	options, err = withPrecondition(ns, options)
	if err != nil {
		return nil, false, err
	}
	switch {
	case ns.DeletionTimestamp.IsZero():
		o, err := r.markTerminating(ctx, name, validate, options)
		return o, false, err
	case len(ns.Spec.Finalizers) != 0:
		return ns, false, nil
	}
	return r.delegate.Delete(ctx, name, validate, options)
}

// withPrecondition is options with the namespace's UID as precondition, or a conflict when the
// caller means another one.
func withPrecondition(ns *v1.Namespace, options *metav1.DeleteOptions) (*metav1.DeleteOptions, error) {
	if options == nil {
		options = metav1.NewDeleteOptions(0)
	}
	options = options.DeepCopy()
	if options.Preconditions == nil {
		options.Preconditions = &metav1.Preconditions{}
	}
	pre := options.Preconditions
	conflict := func(what string, want, have any) error {
		return errors.NewConflict(schema.GroupResource{Resource: "namespaces"}, ns.Name,
			fmt.Errorf("Precondition failed: %s in precondition: %v, %s in object meta: %v", what, want, what, have))
	}
	switch {
	case pre.UID == nil:
		pre.UID = &ns.UID
	case *pre.UID != ns.UID:
		return nil, conflict("UID", *pre.UID, ns.UID)
	}
	if pre.ResourceVersion != nil && *pre.ResourceVersion != ns.ResourceVersion {
		return nil, conflict("ResourceVersion", *pre.ResourceVersion, ns.ResourceVersion)
	}
	return options, nil
}

func (r *namespaceREST) markTerminating(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	options *metav1.DeleteOptions) (runtime.Object, error) {
	key, err := r.KeyFunc(ctx, name)
	if err != nil {
		return nil, err
	}
	pre := &storage.Preconditions{UID: options.Preconditions.UID,
		ResourceVersion: options.Preconditions.ResourceVersion}
	out := &v1.Namespace{}
	err = r.Storage.GuaranteedUpdate(ctx, key, out, false, pre,
		storage.SimpleUpdate(func(o runtime.Object) (runtime.Object, error) {
			ns, ok := o.(*v1.Namespace)
			if !ok {
				return nil, fmt.Errorf("expected *v1.Namespace, got %T", o)
			}
			if err := validate(ctx, ns); err != nil {
				return nil, err
			}
			terminate(ns, options, metav1.Now())
			return ns, nil
		}), dryrun.IsDryRun(options.DryRun), nil)
	if err == nil {
		return out, nil
	}
	gr := schema.GroupResource{Resource: "namespaces"}
	err = storeerr.InterpretUpdateError(storeerr.InterpretGetError(err, gr, name), gr, name)
	if _, ok := err.(errors.APIStatus); !ok {
		err = errors.NewInternalError(err)
	}
	return nil, err
}

// terminate marks a namespace as going away, with the finalizers that the way of deletion asks for.
func terminate(ns *v1.Namespace, options *metav1.DeleteOptions, now metav1.Time) {
	if ns.DeletionTimestamp.IsZero() {
		ns.DeletionTimestamp = &now
	}
	ns.Status.Phase = v1.NamespaceTerminating
	required := func(finalizer string, policy metav1.DeletionPropagation, old *bool) {
		has := slices.Contains(ns.Finalizers, finalizer)
		want := has
		if old != nil {
			want = *old
		}
		if options.PropagationPolicy != nil {
			want = *options.PropagationPolicy == policy
		}
		switch {
		case want && !has:
			ns.Finalizers = append(ns.Finalizers, finalizer)
		case !want && has:
			ns.Finalizers = slices.DeleteFunc(ns.Finalizers, func(f string) bool { return f == finalizer })
		}
	}
	required(metav1.FinalizerOrphanDependents, metav1.DeletePropagationOrphan,
		options.OrphanDependents)
	required(metav1.FinalizerDeleteDependents, metav1.DeletePropagationForeground, nil)
}
