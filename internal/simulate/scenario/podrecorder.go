package scenario

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/simulate/behavior"
	"github.com/gantry-project/gantry/internal/simulate/forecast"
	"github.com/gantry-project/gantry/internal/simulate/fork"
	"github.com/gantry-project/gantry/internal/simulate/memstore"
)

// podRecorder follows the Pods of a cluster from the change on.
type podRecorder struct {
	cluster *fork.Cluster
	began   time.Time
	byUID   map[types.UID]*forecast.Pod
	order   []types.UID        // of those that belong to the forecast, as it happened
	ended   map[types.UID]bool // Succeeded or Failed
	last    time.Duration      // when a Pod last came, went or became ready
}

func newPodRecorder(c *fork.Cluster) *podRecorder {
	return &podRecorder{cluster: c, began: c.Now(), byUID: map[types.UID]*forecast.Pod{},
		ended: map[types.UID]bool{}}
}

// changed takes in one change of an object.
func (r *podRecorder) changed(c memstore.Change) {
	old, _ := c.Old.(*corev1.Pod)
	cur, _ := c.New.(*corev1.Pod)
	if old == nil && cur == nil {
		return
	}
	now := r.cluster.Now().Sub(r.began)
	if cur == nil {
		p := r.of(old)
		if p.Leaves == nil {
			r.leaves(p, old, now)
		}
		if p.Gone == nil {
			p.Gone = &now
		}
		r.last = now
		return
	}
	p := r.of(cur)
	if old == nil {
		p.Created = &now
		r.note(cur.UID)
	}
	first := func(at **time.Duration, is bool) {
		if *at == nil && is {
			*at, r.last = &now, now
		}
	}
	p.Node = cur.Spec.NodeName
	if pod.IsTerminal(cur) {
		r.ended[cur.UID] = true
	}
	if p.Created != nil {
		first(&p.Scheduled, cur.Spec.NodeName != "")
		first(&p.Running, cur.Status.Phase == corev1.PodRunning)
		first(&p.Ready, pod.IsReady(cur) && cur.DeletionTimestamp == nil)
	}
	if cur.DeletionTimestamp != nil && p.Leaves == nil {
		r.leaves(p, cur, now)
	}
	if evicted(cur) && p.Leaves == nil { // its containers have ended; the Pod stays as a record
		r.leaves(p, cur, now)
		p.Gone, p.Cause = &now, nodePressure
	}
}

// nodePressure is why a Pod left that its kubelet evicted.
const nodePressure = "node pressure"

func evicted(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed && p.Status.Reason == eviction.Reason
}

// leaves notes that a Pod's deletion was asked for.
func (r *podRecorder) leaves(p *forecast.Pod, pod *corev1.Pod, now time.Duration) {
	p.Leaves = &now
	p.Cause = causeOf(pod)
	r.last = now
	r.note(pod.UID)
}

// note adds a Pod to the forecast.
func (r *podRecorder) note(uid types.UID) {
	if !slices.Contains(r.order, uid) {
		r.order = append(r.order, uid)
	}
}

func (r *podRecorder) of(p *corev1.Pod) *forecast.Pod {
	f := r.byUID[p.UID]
	if f == nil {
		f = &forecast.Pod{Namespace: p.Namespace, Name: p.Name, Owner: OwnerOf(p), Node: p.Spec.NodeName,
			Revision: revisionOf(p)}
		r.byUID[p.UID] = f
	}
	return f
}

// result returns the Pods, and which of them stands in for which.
func (r *podRecorder) result(time.Time) []forecast.Pod {
	left := map[string][]string{} // names of Pods that left and have no replacement yet, by owner
	out := make([]forecast.Pod, 0, len(r.order))
	for _, uid := range r.order {
		out = append(out, *r.byUID[uid])
	}
	for _, p := range out {
		if p.Leaves != nil && p.Owner != "" && p.Cause != "" {
			left[p.Namespace+"/"+p.Owner] = append(left[p.Namespace+"/"+p.Owner], p.Name)
		}
	}
	for i := range out {
		p := &out[i]
		names := left[p.Namespace+"/"+p.Owner]
		if p.Created == nil || len(names) == 0 {
			continue
		}
		at := max(slices.Index(names, p.Name), 0) // a StatefulSet's Pod comes again by its name
		p.Replaces = names[at]
		left[p.Namespace+"/"+p.Owner] = slices.Delete(names, at, at+1)
	}
	return out
}

// causeOf reads why a Pod is being deleted from its condition DisruptionTarget.
func causeOf(p *corev1.Pod) string {
	if c := pod.Condition(p, corev1.DisruptionTarget); c != nil && c.Status == corev1.ConditionTrue {
		switch c.Reason {
		case "EvictionByEvictionAPI":
			return "evicted"
		case corev1.PodReasonPreemptionByScheduler:
			return "preempted"
		case "DeletionByTaintManager":
			return "taint"
		case "DeletionByPodGC":
			return "node gone"
		}
		return c.Reason
	}
	if owner := metav1.GetControllerOf(p); owner != nil {
		return strings.ToLower(owner.Kind)
	}
	return ""
}

// OwnerOf is kind/name of what a person knows the Pod by: the Deployment behind its ReplicaSet.
func OwnerOf(p *corev1.Pod) string {
	_, rest, ok := strings.Cut(behavior.OwnerKey(p), "/")
	if !ok {
		return ""
	}
	kind, name, _ := strings.Cut(rest, "/")
	return strings.ToLower(kind) + "/" + name
}

// revisionOf is the hash of the template that the Pod was made from.
func revisionOf(p *corev1.Pod) string {
	if hash := p.Labels["pod-template-hash"]; hash != "" {
		return hash
	}
	return p.Labels["controller-revision-hash"]
}
