package preemption

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// VictimReports tell each victim of a choice, in its order, for whom it leaves, what that Pod
// lacked, and which budgets allowed no more disruptions.
func VictimReports(ctx context.Context, in Input, c Candidate) []journal.Preempted {
	short := missingResources(ctx, in, c.Node)
	budgets, err := compilePDBs(in.Budgets)
	if err != nil {
		budgets = nil // Preempt has refused such budgets already
	}
	used := make([]int32, len(budgets))
	out := make([]journal.Preempted, len(c.Victims))
	for i, v := range c.Victims {
		out[i] = journal.Preempted{
			By: pod.Key(in.Pod), Class: in.Pod.Spec.PriorityClassName, Priority: pod.Priority(in.Pod),
			Own:  pod.Priority(v),
			Node: c.Node, Candidates: c.Candidates, Victims: len(c.Victims), Shortages: short,
		}
		for b := range budgets {
			if !budgets[b].matches(v) {
				continue
			}
			if used[b]++; used[b] > budgets[b].allowed {
				out[i].Budgets = append(out[i].Budgets, journal.ViolatedBudget{Name: budgets[b].name,
					Allowed: max(budgets[b].allowed, 0)})
			}
		}
	}
	return out
}

// missingResources asks the plugin that refused the node what was missing there; nothing when it
// does not count resources.
func missingResources(ctx context.Context, in Input, node string) []journal.Shortage {
	n := in.Snapshot.Node(node)
	if n == nil {
		return nil
	}
	by := in.NodeToStatus.Get(node).Plugin()
	i := slices.IndexFunc(in.Plugins.Filter, func(p framework.FilterPlugin) bool { return p.Name() == by })
	if i < 0 {
		return nil
	}
	e, ok := in.Plugins.Filter[i].(schedule.Explainer)
	if !ok {
		return nil
	}
	return e.Explain(ctx, in.State, in.Pod, n).Short
}

// LowerPriorityNominatedPods lists the Pods of those nominated to a node that have a lower priority
// than the Pod: when it takes the node they may fit elsewhere.
func LowerPriorityNominatedPods(p *v1.Pod, nominated []framework.PodInfo) []*v1.Pod {
	var out []*v1.Pod
	for _, other := range nominated {
		if o := other.GetPod(); pod.Priority(o) < pod.Priority(p) {
			out = append(out, o)
		}
	}
	return out
}
