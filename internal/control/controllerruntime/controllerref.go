package controllerruntime

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// ByControllerIndex is the name of the index from a controller's UID to the objects it controls.
const ByControllerIndex = "controllerUID"

// IndexByController indexes an informer's objects by the UID of their controller; orphans are
// indexed under their namespace with an empty UID.
func IndexByController(informer cache.SharedIndexInformer) {
	// AddIndexers fails when the index is there already, which is what we want.
	_ = informer.AddIndexers(cache.Indexers{ByControllerIndex: func(obj any) ([]string, error) {
		m, ok := obj.(metav1.Object)
		if !ok {
			return nil, nil
		}
		if owner := metav1.GetControllerOf(m); owner != nil {
			return []string{string(owner.UID)}, nil
		}
		return []string{orphansKey(m.GetNamespace())}, nil
	}})
}

func orphansKey(namespace string) string { return "orphan/" + namespace }

// Owner is an object whose controller claims others.
type Owner struct {
	Object   metav1.Object
	Kind     schema.GroupVersionKind
	Selector labels.Selector
}

// Adoptable gives an object that whoever selects it may adopt: it is there, stays, and has no
// controller.
func Adoptable[T metav1.Object](o runtime.Object) (obj T, ok bool) {
	obj, ok = o.(T)
	return obj, ok && metav1.GetControllerOf(obj) == nil && obj.GetDeletionTimestamp() == nil
}

// Selects tells whether a selector chooses labels. One that is damaged or chooses everything
// chooses nobody: validation lets no such owner in.
func Selects(s *metav1.LabelSelector, set map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && !selector.Empty() && selector.Matches(labels.Set(set))
}

// Key is namespace/name of the owner.
func (o Owner) Key() string { return o.Object.GetNamespace() + "/" + o.Object.GetName() }

// PatchFunc sends a merge patch to one of the claimed objects.
type PatchFunc func(ctx context.Context, namespace, name string, patch []byte) error

// Claim returns the objects of the informer that belong to the owner: those it controls and that
// match its selector, and matching orphans, which it adopts. Controlled objects that no longer
// match are released. The owner must have been read freshly when it adopts.
func Claim[T metav1.Object](ctx context.Context, o Owner, informer cache.SharedIndexInformer,
	patch PatchFunc) ([]T, error) {
	var mine []T
	owned, err := informer.GetIndexer().ByIndex(ByControllerIndex, string(o.Object.GetUID()))
	if err != nil {
		return nil, err
	}
	for _, raw := range owned {
		m := raw.(T)
		if o.Selector.Matches(labels.Set(m.GetLabels())) {
			mine = append(mine, m)
			continue
		}
		if o.Object.GetDeletionTimestamp() == nil {
			if err := release(ctx, o, m, patch); err != nil {
				return nil, err
			}
		}
	}
	if o.Object.GetDeletionTimestamp() != nil {
		return mine, nil
	}
	free, err := informer.GetIndexer().ByIndex(ByControllerIndex, orphansKey(o.Object.GetNamespace()))
	if err != nil {
		return nil, err
	}
	for _, raw := range free {
		m := raw.(T)
		if m.GetDeletionTimestamp() != nil || !o.Selector.Matches(labels.Set(m.GetLabels())) {
			continue
		}
		if err := adopt(ctx, o, m, patch); err != nil {
			if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsConflict(err) {
				continue // gone, or claimed by somebody else meanwhile
			}
			return nil, err
		}
		mine = append(mine, m)
	}
	return mine, nil
}

func adopt(ctx context.Context, o Owner, m metav1.Object, patch PatchFunc) error {
	body := fmt.Sprintf(
		`{"metadata":{"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"controller":true,`+
			`"blockOwnerDeletion":true}],"uid":%q}}`,
		o.Kind.GroupVersion(), o.Kind.Kind, o.Object.GetName(), o.Object.GetUID(), m.GetUID())
	return patch(ctx, m.GetNamespace(), m.GetName(), []byte(body))
}

func release(ctx context.Context, o Owner, m metav1.Object, patch PatchFunc) error {
	body := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"$patch":"delete","uid":%q}],"uid":%q}}`, o.Object.GetUID(),
		m.GetUID())
	return IgnoreNotFound(patch(ctx, m.GetNamespace(), m.GetName(), []byte(body)))
}

// OwnerKeys returns the keys of the controllers of that kind that a change of an object concerns:
// the old and the new one.
func OwnerKeys(kind string) func(old, cur runtime.Object) []string {
	return func(old, cur runtime.Object) []string {
		var keys []string
		for _, obj := range []runtime.Object{old, cur} {
			m, ok := obj.(metav1.Object)
			if !ok {
				continue
			}
			if owner := metav1.GetControllerOf(m); owner != nil && owner.Kind == kind {
				if key := m.GetNamespace() + "/" + owner.Name; len(keys) == 0 || keys[0] != key {
					keys = append(keys, key)
				}
			}
		}
		return keys
	}
}

// PatchPod is the PatchFunc of Pods.
func (d ControllerContext) PatchPod(ctx context.Context, namespace, name string, patch []byte) error {
	_, err := d.Client.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{})
	return err
}

// PatchRevision is the PatchFunc of ControllerRevisions.
func (d ControllerContext) PatchRevision(ctx context.Context, namespace, name string, patch []byte) error {
	_, err := d.Client.AppsV1().ControllerRevisions(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{})
	return err
}

// NewPodFromTemplate makes the Pod a controller creates: template, generated name, owner.
func NewPodFromTemplate(t *corev1.PodTemplateSpec, o Owner) *corev1.Pod {
	pod := &corev1.Pod{Spec: *t.Spec.DeepCopy()}
	pod.Namespace = o.Object.GetNamespace()
	pod.GenerateName = GeneratePrefix(o.Object.GetName())
	pod.Labels = copyMap(t.Labels)
	pod.Annotations = copyMap(t.Annotations)
	pod.Finalizers = append([]string(nil), t.Finalizers...)
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(o.Object, o.Kind)}
	return pod
}

// maxPrefix leaves room for the five random letters the API server appends to a generated name of
// at most 63.
const maxPrefix = 57

// GeneratePrefix is the name prefix of an owner's Pods: its name and a dash; the dash goes where
// the prefix would be too long to be a label.
func GeneratePrefix(owner string) string {
	if len(owner)+1 > maxPrefix {
		return owner
	}
	return owner + "-"
}

func copyMap(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// IgnoreNotFound forgives that an object is not there any more: whoever wanted to change or delete
// it is content.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// IgnoreNamespaceTerminating forgives that nothing new is let into a namespace that is going away.
func IgnoreNamespaceTerminating(err error) error {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}
