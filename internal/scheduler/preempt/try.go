package preempt

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
)

// try is what came of taking Pods away from one node.
type try struct {
	basis
	leave  []int32 // places among lower of the victims, the most important first
	broken int
	status *framework.Status // nil: a candidate
	weight
}

// basis is what a try was made from, beside the shape of the Pod: while that is the same, so is the try.
type basis struct {
	node   framework.NodeInfo
	rivals []framework.PodInfo // promised the node, of no lower priority
	lower  []framework.PodInfo // of lower priority, who may have to leave, the most important first
	told   *told               // nil: there were no budgets
}

// told is what budgets said.
type told struct {
	breaking []framework.PodInfo // of lower, whose leaving would break one
	edition  int64               // of the budgets that say so
}

// victims are the Pods that must leave, the most important first.
func (t *try) victims() []*v1.Pod {
	out := make([]*v1.Pod, len(t.leave))
	for i, at := range t.leave {
		out[i] = t.lower[at].GetPod()
	}
	return out
}

// harm is what is read of a victim to compare candidates.
type harm struct {
	priority int32
	began    moment
}

func harmOf(p *v1.Pod) harm { return harm{pod.Priority(p), momentOf(started(p))} }

// moment is a time that is compared only.
type moment struct{ seconds, nanos int64 }

func momentOf(t metav1.Time) moment { return moment{t.Unix(), int64(t.Nanosecond())} }

func (m moment) compare(o moment) int {
	return cmp.Or(cmp.Compare(m.seconds, o.seconds), cmp.Compare(m.nanos, o.nanos))
}

// weight is what candidates are compared by.
type weight struct {
	highest  int32 // the highest priority among the victims
	sum      int64 // of their priorities, each lifted above zero so that more victims always weigh more
	count    int
	earliest moment // start among the victims of the highest priority; the later, the less was lost
}

// unharmed is the weight of no victims.
func unharmed() weight { return weight{highest: -1 << 31, earliest: momentOf(notBegun())} }

// add counts another victim.
func (w *weight) add(h harm) {
	w.count++
	w.sum += int64(h.priority) + 1<<31
	switch {
	case h.priority > w.highest:
		w.highest, w.earliest = h.priority, h.began
	case h.priority == w.highest && h.began.compare(w.earliest) < 0:
		w.earliest = h.began
	}
}

// least orders candidates: the least harm first.
func least(a, b *try) int {
	return cmp.Or(
		cmp.Compare(a.broken, b.broken),
		cmp.Compare(a.highest, b.highest),
		cmp.Compare(a.sum, b.sum),
		cmp.Compare(a.count, b.count),
		b.earliest.compare(a.earliest),
	)
}

// importance orders Pods: higher priority first, then who started first.
func importance(a, b *v1.Pod) int {
	if c := cmp.Compare(pod.Priority(b), pod.Priority(a)); c != 0 {
		return c
	}
	if c := started(a).Compare(started(b).Time); c != 0 {
		return c
	}
	return cmp.Compare(a.UID, b.UID)
}

// started is when a Pod began to run; one that has not counts as starting last.
func started(p *v1.Pod) metav1.Time {
	if p.Status.StartTime != nil {
		return *p.Status.StartTime
	}
	return notBegun()
}

func notBegun() metav1.Time { return metav1.Unix(1<<60, 0) }
