package preempt

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/place"
)

// Stories tell each victim of a choice, in its order, for whom it leaves, what that Pod lacked, and which budgets allowed no more disruptions.
func Stories(ctx context.Context, in In, c Choice) []journal.Preempted {
	short := lacked(ctx, in, c.Node)
	budgets, err := readBudgets(in.Budgets)
	if err != nil {
		budgets = nil // Search has refused such budgets already
	}
	used := make([]int32, len(budgets))
	out := make([]journal.Preempted, len(c.Victims))
	for i, v := range c.Victims {
		out[i] = journal.Preempted{
			By: pod.Key(in.Pod), Class: in.Pod.Spec.PriorityClassName, Priority: pod.Priority(in.Pod), Own: pod.Priority(v),
			Node: c.Node, Candidates: c.Candidates, Victims: len(c.Victims), Short: short,
		}
		for b := range budgets {
			if !budgets[b].counts(v) {
				continue
			}
			if used[b]++; used[b] > budgets[b].allowed {
				out[i].Budgets = append(out[i].Budgets, journal.Overruled{Name: budgets[b].name, Allowed: max(budgets[b].allowed, 0)})
			}
		}
	}
	return out
}

// lacked asks the plugin that refused the node what was missing there; nothing when it does not count resources.
func lacked(ctx context.Context, in In, node string) []journal.Short {
	n := in.World.Node(node)
	if n == nil {
		return nil
	}
	by := in.Refused.Get(node).Plugin()
	i := slices.IndexFunc(in.Judges.Filter, func(p framework.FilterPlugin) bool { return p.Name() == by })
	if i < 0 {
		return nil
	}
	e, ok := in.Judges.Filter[i].(place.Explainer)
	if !ok {
		return nil
	}
	return e.Explain(ctx, in.State, in.Pod, n).Short
}

// Lower lists the Pods of those promised a node that have a lower priority than the Pod: when it takes the node they may fit elsewhere.
func Lower(p *v1.Pod, promised []framework.PodInfo) []*v1.Pod {
	var out []*v1.Pod
	for _, other := range promised {
		if o := other.GetPod(); pod.Priority(o) < pod.Priority(p) {
			out = append(out, o)
		}
	}
	return out
}
