package resourceclaim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	claimmetrics "k8s.io/dynamic-resource-allocation/resourceclaim/metrics"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// Prefixes of queue keys.
const (
	podKey   = "pod:"
	claimKey = "claim:"
)

// manager is the field manager of status.resourceClaimStatuses, as upstream's.
const manager = "ResourceClaimController"

type controller struct {
	controllerContext controllerruntime.ControllerContext
	pods              corelisters.PodLister
	claims            resourcelisters.ResourceClaimLister
	templates         resourcelisters.ResourceClaimTemplateLister
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	pods, r := d.Informers.Core().V1().Pods(), d.Informers.Resource().V1()
	c := &controller{d, pods.Lister(), r.ResourceClaims().Lister(), r.ResourceClaimTemplates().Lister()}
	counted.from.Store(&c.claims)
	claimmetrics.RegisterMetrics()
	q := controllerruntime.NewQueue("resourceclaim", 5, c.syncHandler)
	q.Watch(pods.Informer(), func(old, cur runtime.Object) []string { return keysOfPod(old, cur) })
	q.Watch(r.ResourceClaims().Informer(), func(old, cur runtime.Object) []string { return keysOfClaim(old, cur) })
	q.Watch(r.ResourceClaimTemplates().Informer(),
		func(_, cur runtime.Object) []string { return c.keysOfTemplate(cur) })
	return q
}

func keysOfPod(old, cur runtime.Object) []string {
	p, is := cur.(*corev1.Pod)
	if !is {
		p, _ = old.(*corev1.Pod)
	}
	var keys []string
	if was, had := old.(*corev1.Pod); had && is && was.UID != p.UID {
		keys = keysOfPod(was, nil) // the update hides a deletion and a creation with the same name
	}
	if p == nil || len(p.Spec.ResourceClaims) == 0 && p.Status.ExtendedResourceClaimStatus == nil {
		return keys
	}
	if is && NeedsClaims(p) {
		return append(keys, podKey+p.Namespace+"/"+p.Name)
	}
	for name := range resourceclaim.PodClaims(p) {
		keys = append(keys, claimKey+p.Namespace+"/"+name)
	}
	return keys
}

func keysOfClaim(old, cur runtime.Object) []string {
	c, is := cur.(*resourceapi.ResourceClaim)
	if is {
		return []string{claimKey + c.Namespace + "/" + c.Name}
	}
	c, _ = old.(*resourceapi.ResourceClaim)
	if owner := metav1.GetControllerOf(c); owner != nil && owner.Kind == "Pod" { // its Pod gets another one
		return []string{podKey + c.Namespace + "/" + owner.Name}
	}
	return nil
}

// keysOfTemplate returns the Pods that need claims from an added template.
func (c *controller) keysOfTemplate(cur runtime.Object) []string {
	t, ok := cur.(*resourceapi.ResourceClaimTemplate)
	if !ok {
		return nil
	}
	pods, err := c.pods.Pods(t.Namespace).List(labels.Everything())
	if err != nil {
		return nil
	}
	var keys []string
	for _, p := range pods {
		for i := range p.Spec.ResourceClaims {
			if name := p.Spec.ResourceClaims[i].ResourceClaimTemplateName; name != nil && *name == t.Name {
				keys = append(keys, podKey+p.Namespace+"/"+p.Name)
				break
			}
		}
	}
	return keys
}

func (c *controller) syncHandler(ctx context.Context, key string) (time.Duration, error) {
	if rest, ok := strings.CutPrefix(key, podKey); ok {
		return 0, c.syncPod(ctx, rest)
	}
	return 0, c.syncClaim(ctx, strings.TrimPrefix(key, claimKey))
}

// syncPod creates the claims of a Pod's templates, and reserves claims for a Pod that was bound
// without the scheduler.
func (c *controller) syncPod(ctx context.Context, key string) error {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	p, err := c.pods.Pods(ns).Get(name)
	if err != nil {
		return controllerruntime.IgnoreNotFound(err)
	}
	if !NeedsClaims(p) || p.DeletionTimestamp != nil {
		return nil
	}
	names, changed := map[string]string{}, false
	for _, s := range p.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			names[s.Name] = *s.ResourceClaimName
		}
	}
	for i := range p.Spec.ResourceClaims {
		e := &p.Spec.ResourceClaims[i]
		if e.ResourceClaimTemplateName == nil {
			continue
		}
		is, err := c.ensureClaim(ctx, p, e, names[e.Name])
		if err != nil {
			c.controllerContext.Recorder.Event(p, corev1.EventTypeWarning,
				"FailedResourceClaimCreation", fmt.Sprintf("PodResourceClaim %s: %v", e.Name, err))
			return fmt.Errorf("pod %s/%s, PodResourceClaim %s: %w", p.Namespace, p.Name, e.Name, err)
		}
		if names[e.Name] != is {
			names[e.Name], changed = is, true
		}
	}
	if changed {
		return c.updatePodStatus(ctx, p, names)
	}
	return c.reserveForPod(ctx, p)
}

// ensureClaim returns the name of the claim for an entry: the one in the Pod's status, one created
// earlier, or a new one.
func (c *controller) ensureClaim(ctx context.Context, p *corev1.Pod, e *corev1.PodResourceClaim,
	known string) (string, error) {
	if known != "" {
		is, err := c.claims.ResourceClaims(p.Namespace).Get(known)
		if err == nil {
			return known, resourceclaim.IsForPod(p, is, false)
		}
		if !apierrors.IsNotFound(err) {
			return "", err
		}
		// The cache may not have it yet.
		if _, err := c.controllerContext.Client.ResourceV1().ResourceClaims(p.Namespace).Get(ctx, known,
			metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return known, err
		}
	}
	all, err := c.claims.ResourceClaims(p.Namespace).List(labels.Everything())
	if err != nil {
		return "", err
	}
	if is := FindClaim(p, e.Name, all); is != nil {
		return is.Name, nil
	}
	// A claim that was just created may neither be in the cache nor in the Pod's status: list
	// before creating a second one.
	fresh, err := c.controllerContext.Client.ResourceV1().ResourceClaims(p.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for i := range fresh.Items {
		if FindClaim(p, e.Name, []*resourceapi.ResourceClaim{&fresh.Items[i]}) != nil {
			return fresh.Items[i].Name, nil
		}
	}
	t, err := c.templates.ResourceClaimTemplates(p.Namespace).Get(*e.ResourceClaimTemplateName)
	if err != nil {
		return "", fmt.Errorf("resource claim template %q: %w", *e.ResourceClaimTemplateName, err)
	}
	claim := NewClaim(p, e.Name, t)
	created, err := c.controllerContext.Client.ResourceV1().ResourceClaims(p.Namespace).Create(ctx, claim,
		metav1.CreateOptions{})
	countCreation(claim, err)
	if err != nil {
		return "", fmt.Errorf("create ResourceClaim: %w", err)
	}
	return created.Name, nil
}

// updatePodStatus writes the Pod's claims.
func (c *controller) updatePodStatus(ctx context.Context, p *corev1.Pod, names map[string]string) error {
	status := corev1apply.PodStatus()
	for i := range p.Spec.ResourceClaims {
		if name, ok := names[p.Spec.ResourceClaims[i].Name]; ok {
			status = status.WithResourceClaimStatuses(corev1apply.PodResourceClaimStatus().WithName(
				p.Spec.ResourceClaims[i].Name).WithResourceClaimName(name))
		}
	}
	want := corev1apply.Pod(p.Name, p.Namespace).WithUID(p.UID).WithStatus(status)
	_, err := c.controllerContext.Client.CoreV1().Pods(p.Namespace).ApplyStatus(ctx, want,
		metav1.ApplyOptions{FieldManager: manager, Force: true})
	return controllerruntime.IgnoreNotFound(err)
}

// reserveForPod adds a bound Pod to the users of its allocated claims.
func (c *controller) reserveForPod(ctx context.Context, p *corev1.Pod) error {
	if p.Spec.NodeName == "" {
		return nil
	}
	for name, ours := range resourceclaim.PodClaims(p) {
		is, err := c.claims.ResourceClaims(p.Namespace).Get(name)
		if err != nil {
			if controllerruntime.IgnoreNotFound(err) == nil {
				continue
			}
			return err
		}
		if is.Status.Allocation == nil || is.DeletionTimestamp != nil || resourceclaim.IsReservedForPod(p, is, false) ||
			!resourceclaim.CanBeReserved(is) ||
			ours && resourceclaim.IsForPod(p, is, false) != nil {
			continue
		}
		is = is.DeepCopy()
		is.Status.ReservedFor = append(is.Status.ReservedFor,
			resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
		if _, err := c.controllerContext.Client.ResourceV1().ResourceClaims(is.Namespace).UpdateStatus(ctx, is,
			metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("reserve claim for pod: %w", err)
		}
	}
	return nil
}

// syncClaim removes users that are gone, and deallocates and deletes the claim if it has none.
func (c *controller) syncClaim(ctx context.Context, key string) error {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	is, err := c.claims.ResourceClaims(ns).Get(name)
	if err != nil {
		return controllerruntime.IgnoreNotFound(err)
	}
	var asked error
	n := Decide(is, func(name, uid string) bool {
		yes, err := c.podNeedsClaim(ctx, ns, name, uid)
		asked = errors.Join(asked, err)
		return yes
	})
	if asked != nil {
		return asked
	}
	client := c.controllerContext.Client.ResourceV1().ResourceClaims(ns)
	if n.Status {
		is = is.DeepCopy()
		is.Status.ReservedFor = n.ReservedFor
		if n.Deallocate {
			is.Status.Allocation, is.Status.Devices = nil, nil
		}
		if is, err = client.UpdateStatus(ctx, is, metav1.UpdateOptions{}); err != nil {
			return controllerruntime.IgnoreNotFound(err)
		}
	}
	if n.RemoveFinalizer {
		is = is.DeepCopy()
		is.Finalizers = slices.DeleteFunc(is.Finalizers, func(f string) bool { return f == resourceapi.Finalizer })
		if is, err = client.Update(ctx, is, metav1.UpdateOptions{}); err != nil {
			return controllerruntime.IgnoreNotFound(err)
		}
	}
	if n.Delete {
		return controllerruntime.IgnoreNotFound(client.Delete(ctx, name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(is.UID))}))
	}
	return nil
}

// podNeedsClaim reads a Pod that the cache lacks from the API: a running Pod must not lose its
// devices.
func (c *controller) podNeedsClaim(ctx context.Context, ns, name, uid string) (bool, error) {
	p, err := c.pods.Pods(ns).Get(name)
	if err == nil && string(p.UID) == uid {
		return NeedsClaims(p), nil
	}
	fresh, err := c.controllerContext.Client.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	return string(fresh.UID) == uid && NeedsClaims(fresh), nil
}
