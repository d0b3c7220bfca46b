package preemption

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
)

// dryRunResult is what came of taking Pods away from one node.
type dryRunResult struct {
	dryRunInputs
	victimRows    []int32 // places among lower of the victims, the most important first
	pdbViolations int
	status        *framework.Status // nil: a candidate
	candidateCost
}

// dryRunInputs is what a try was made from, beside the shape of the Pod: while that is the same, so
// is the try.
type dryRunInputs struct {
	node             framework.NodeInfo
	nominated        []framework.PodInfo // nominated to the node, of no lower priority
	potentialVictims []framework.PodInfo // of lower priority, who may have to leave, the most important first
	pdbState         *pdbState           // nil: there were no budgets
}

// pdbState is what budgets said.
type pdbState struct {
	violating     []framework.PodInfo // of lower, whose leaving would break one
	pdbGeneration int64               // of the budgets that say so
}

// victimPods are the Pods that must leave, the most important first.
func (t *dryRunResult) victimPods() []*v1.Pod {
	out := make([]*v1.Pod, len(t.victimRows))
	for i, at := range t.victimRows {
		out[i] = t.potentialVictims[at].GetPod()
	}
	return out
}

// victimCost is what is read of a victim to compare candidates.
type victimCost struct {
	priority int32
	started  startTime
}

func victimCostOf(p *v1.Pod) victimCost {
	return victimCost{pod.Priority(p), startTimeOf(podStartTime(p))}
}

// startTime is a time that is compared only.
type startTime struct{ seconds, nanos int64 }

func startTimeOf(t metav1.Time) startTime { return startTime{t.Unix(), int64(t.Nanosecond())} }

func (m startTime) compare(o startTime) int {
	return cmp.Or(cmp.Compare(m.seconds, o.seconds), cmp.Compare(m.nanos, o.nanos))
}

// candidateCost is what candidates are compared by.
type candidateCost struct {
	highest  int32 // the highest priority among the victims
	sum      int64 // of their priorities, each lifted above zero so that more victims always weigh more
	count    int
	earliest startTime // start among the victims of the highest priority; the later, the less was lost
}

// noVictimsCost is the weight of no victims.
func noVictimsCost() candidateCost {
	return candidateCost{highest: -1 << 31, earliest: startTimeOf(notStarted())}
}

// add counts another victim.
func (w *candidateCost) add(h victimCost) {
	w.count++
	w.sum += int64(h.priority) + 1<<31
	switch {
	case h.priority > w.highest:
		w.highest, w.earliest = h.priority, h.started
	case h.priority == w.highest && h.started.compare(w.earliest) < 0:
		w.earliest = h.started
	}
}

// compareCandidates orders candidates: the lowest cost of victims first.
func compareCandidates(a, b *dryRunResult) int {
	return cmp.Or(
		cmp.Compare(a.pdbViolations, b.pdbViolations),
		cmp.Compare(a.highest, b.highest),
		cmp.Compare(a.sum, b.sum),
		cmp.Compare(a.count, b.count),
		b.earliest.compare(a.earliest),
	)
}

// moreImportantPod orders Pods: higher priority first, then who started first.
func moreImportantPod(a, b *v1.Pod) int {
	if c := cmp.Compare(pod.Priority(b), pod.Priority(a)); c != 0 {
		return c
	}
	if c := podStartTime(a).Compare(podStartTime(b).Time); c != 0 {
		return c
	}
	return cmp.Compare(a.UID, b.UID)
}

// podStartTime is when a Pod began to run; one that has not counts as starting last.
func podStartTime(p *v1.Pod) metav1.Time {
	if p.Status.StartTime != nil {
		return *p.Status.StartTime
	}
	return notStarted()
}

func notStarted() metav1.Time { return metav1.Unix(1<<60, 0) }
