package volumeprotection

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/pod"
)

// podsByClaim is this controller's index of Pods.
const podsByClaim = "pvcprotectionClaim"

// ClaimsReferencedBy returns the claims that a Pod names, placed or not, until it has ended: the
// condition Unused of claims goes by it.
func ClaimsReferencedBy(o runtime.Object) []string {
	p, _ := o.(*v1.Pod)
	if p == nil || pod.IsTerminal(p) {
		return nil
	}
	return pod.ClaimKeys(p)
}

// podEvent returns the claims that a change of a Pod may free, and those that it begins or ends to
// name.
func podEvent(old, cur runtime.Object) []string {
	out, was, is := FreedClaims(old, cur), ClaimsReferencedBy(old), ClaimsReferencedBy(cur)
	for _, key := range slices.Concat(was, is) {
		if slices.Contains(was, key) != slices.Contains(is, key) {
			out = append(out, key)
		}
	}
	return out
}

// NextUnused returns the condition Unused that a claim is to get; nil leaves it as it is. A claim
// that is being deleted or is not bound keeps what it has.
func NextUnused(claim *v1.PersistentVolumeClaim, used bool, now metav1.Time) *v1.PersistentVolumeClaimCondition {
	if !tellsUse(claim) {
		return nil
	}
	out := v1.PersistentVolumeClaimCondition{Type: v1.PersistentVolumeClaimUnused, Status: v1.ConditionTrue,
		LastTransitionTime: now, Reason: "NoPodsUsingPVC", Message: "No pods are currently referencing this PVC"}
	if used {
		out.Status, out.Reason = v1.ConditionFalse, "PodUsingPVC"
		out.Message = "A pod is currently referencing this PVC"
	}
	// One in use whose condition is Unknown keeps it, as upstream's.
	has := unusedCondition(claim)
	if has != nil && (has.Status == out.Status || used && has.Status != v1.ConditionTrue) {
		return nil
	}
	return &out
}

// tellsUse tells whether a claim's status says that it is unused, or in use.
func tellsUse(claim *v1.PersistentVolumeClaim) bool {
	return claim.DeletionTimestamp == nil && claim.Status.Phase == v1.ClaimBound
}

func unusedCondition(claim *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaimCondition {
	i := slices.IndexFunc(claim.Status.Conditions, func(c v1.PersistentVolumeClaimCondition) bool {
		return c.Type == v1.PersistentVolumeClaimUnused
	})
	if i < 0 {
		return nil
	}
	return &claim.Status.Conditions[i]
}

// syncUnused writes the claim's condition Unused when it is another; written tells that it did.
func (c *pvcProtection) syncUnused(ctx context.Context, claim *v1.PersistentVolumeClaim) (written bool, err error) {
	if c.controllerContext.Volumes.NoUnusedClaims || !tellsUse(claim) {
		return false, nil
	}
	key := claim.Namespace + "/" + claim.Name
	names := func(p *v1.Pod) bool {
		return slices.Contains(ClaimsReferencedBy(p), key) && belongsTo(claim, p)
	}
	used := slices.ContainsFunc(c.cachedPods(key), names)
	if !used && NextUnused(claim, false, metav1.Time{}) == nil {
		return false, nil // it says so already
	}
	if !used { // from the API, not the cache: one that was just created counts
		pods, err := c.livePods(ctx, claim.Namespace)
		if err != nil {
			return false, err
		}
		used = slices.ContainsFunc(pods, names)
	}
	next := NextUnused(claim, used, metav1.NewTime(c.controllerContext.Time()))
	if next == nil {
		return false, nil
	}
	claim = claim.DeepCopy()
	if has := unusedCondition(claim); has != nil {
		*has = *next
	} else {
		claim.Status.Conditions = append(claim.Status.Conditions, *next)
	}
	_, err = c.controllerContext.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, claim,
		metav1.UpdateOptions{})
	return true, controllerruntime.IgnoreNotFound(err)
}

// belongsTo tells whether a claim that a Pod names is its: one made for an ephemeral volume of
// another Pod is not.
func belongsTo(claim *v1.PersistentVolumeClaim, p *v1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool {
		name, made := pod.ClaimName(p, &v)
		return name == claim.Name && (!made || metav1.IsControlledBy(claim, p))
	})
}

func (c *pvcProtection) cachedPods(claim string) []*v1.Pod {
	objects, err := c.pods.ByIndex(podsByClaim, claim)
	if err != nil {
		return nil // the index is there
	}
	var out []*v1.Pod
	for _, o := range objects {
		if p, ok := o.(*v1.Pod); ok {
			out = append(out, p)
		}
	}
	return out
}

func (c *pvcProtection) livePods(ctx context.Context, namespace string) ([]*v1.Pod, error) {
	list, err := c.controllerContext.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := make([]*v1.Pod, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out, nil
}

// indexPods adds the index that cachedPods asks; before the informer starts.
func indexPods(informer cache.SharedIndexInformer) cache.Indexer {
	// AddIndexers only fails on a stopped informer, when the process is about to end.
	_ = informer.AddIndexers(cache.Indexers{podsByClaim: func(o any) ([]string, error) {
		return pod.ClaimKeys(o), nil
	}})
	return informer.GetIndexer()
}
