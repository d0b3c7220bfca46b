package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// ByControllerIndex is the name of the index by controller UID.
const ByControllerIndex = "controllerUID"

// IndexByController indexes an informer's objects by the UID of their controller, and orphans by
// namespace. It must be called before the informer runs.
func IndexByController(informer cache.SharedIndexInformer) {
	// AddIndexers only fails if the index exists already, which is fine.
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

// Owner is an object whose controller claims others by selector.
type Owner struct {
	Object   metav1.Object
	Kind     schema.GroupVersionKind
	Selector labels.Selector
}

// Adoptable returns o as T, and ok if a matching owner may adopt it: it has no controller and is
// not being deleted.
func Adoptable[T metav1.Object](o runtime.Object) (obj T, ok bool) {
	obj, ok = o.(T)
	return obj, ok && metav1.GetControllerOf(obj) == nil && obj.GetDeletionTimestamp() == nil
}

// Selects reports whether s matches the labels. An invalid or empty selector matches nothing:
// validation refuses such owners.
func Selects(s *metav1.LabelSelector, set map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && !selector.Empty() && selector.Matches(labels.Set(set))
}

// SelectingKeys returns the keys of the owners whose selector matches an object: those that may
// adopt it.
func SelectingKeys[T metav1.Object](o metav1.Object, owners []T,
	selector func(T) *metav1.LabelSelector) (keys []string) {
	for _, owner := range owners {
		if Selects(selector(owner), o.GetLabels()) {
			keys = append(keys, owner.GetNamespace()+"/"+owner.GetName())
		}
	}
	return keys
}

// Key returns NAMESPACE/NAME.
func (o Owner) Key() string { return o.Object.GetNamespace() + "/" + o.Object.GetName() }

// PatchFunc sends a strategic merge patch to one claimed object.
type PatchFunc func(ctx context.Context, namespace, name string, patch []byte) error

// Claim returns the informer's objects that belong to o: those it controls and whose labels match,
// and matching orphans, which it adopts. Controlled objects that no longer match are released. The
// caller must have read o from the API server, not from a cache, if there are orphans to adopt. It
// returns the first error of a patch; orphans that are gone or were adopted by another controller
// are skipped.
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
				continue // gone, or adopted by another controller
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

// OwnerKeys returns a function for Queue.Watch: the keys of the controllers of the given kind that
// an object has before and after a change.
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

// PatchPod is the PatchFunc for Pods.
func (d ControllerContext) PatchPod(ctx context.Context, namespace, name string, patch []byte) error {
	_, err := d.Client.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{})
	return err
}

// PatchRevision is the PatchFunc for ControllerRevisions.
func (d ControllerContext) PatchRevision(ctx context.Context, namespace, name string, patch []byte) error {
	_, err := d.Client.AppsV1().ControllerRevisions(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{})
	return err
}

// NewPodFromTemplate returns the Pod that a controller creates from t, with generated name and
// controller reference.
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

// maxPrefix leaves room for a generated name's five random characters within 63 characters, and one
// for the dash.
const maxPrefix = 57

// GeneratePrefix returns the generateName of an owner's Pods: its name and a dash; without the dash
// if that would be too long for a label.
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

// IgnoreNotFound returns nil for NotFound, otherwise err.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// StatusCode is the HTTP status of an error as upstream's metrics label it: 200 without an error,
// 500 of one that has none.
func StatusCode(err error) string {
	if err == nil {
		return "200"
	}
	if s := apierrors.APIStatus(nil); errors.As(err, &s) && s.Status().Code != 0 {
		return strconv.Itoa(int(s.Status().Code))
	}
	return "500"
}

// IgnoreNamespaceTerminating returns nil if err says that the namespace is terminating, otherwise
// err.
func IgnoreNamespaceTerminating(err error) error {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}
