package whatif

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
)

// Victims are the Pods of lower priority that would have to leave a node for this Pod, were it allowed to preempt.
type Victims struct {
	Node string
	Pods []*v1.Pod
}

// Yield finds the node where the fewest Pods of lower priority would have to leave; no Pods when that helps nowhere.
func Yield(ctx context.Context, in In) Victims {
	s := &search{in: In{Pod: in.Pod, World: in.World, Judges: in.Judges, Tries: 60}, ctx: ctx, said: map[string]bool{}}
	begin := state{pod: in.Pod, world: in.World}
	first := s.rule(begin)
	if first == nil || first.Fits() {
		return Victims{}
	}
	var best Victims
	refusals := first.Refusals(first.Nodes())
	for _, name := range nearest(refusals, targets) {
		i := slices.IndexFunc(refusals, func(r journal.NodeRefusal) bool { return r.Node == name })
		n := in.World.Node(name)
		if n == nil || len(refusals[i].Short) == 0 {
			continue
		}
		var lower []*v1.Pod
		for _, p := range n.GetPods() {
			if pod.Priority(p.GetPod()) < pod.Priority(in.Pod) {
				lower = append(lower, p.GetPod())
			}
		}
		gone := fewest(refusals[i].Short, lower)
		if len(gone) == 0 || best.Node != "" && len(gone) >= len(best.Pods) {
			continue
		}
		next, err := apply(begin, without(name, gone...))
		if err != nil {
			continue
		}
		if r := s.rule(next); r != nil && r.Fits() {
			best = Victims{Node: name, Pods: gone}
		}
	}
	return best
}

// fewest takes the smallest Pod that suffices alone, else those that help most, until nothing is short.
func fewest(short []journal.Short, from []*v1.Pod) []*v1.Pod {
	var alone *v1.Pod
	for _, p := range from {
		if missing(short, p) == 0 && (alone == nil || weight(short, p) < weight(short, alone)) {
			alone = p
		}
	}
	if alone != nil {
		return []*v1.Pod{alone}
	}
	var gone []*v1.Pod
	for missing(short, gone...) > 0 {
		var best *v1.Pod
		least := missing(short, gone...)
		for _, p := range from {
			if m := missing(short, append(slices.Clip(gone), p)...); !slices.Contains(gone, p) && m < least {
				best, least = p, m
			}
		}
		if best == nil {
			return nil
		}
		gone = append(gone, best)
	}
	return gone
}

// Promote gives the Pod a class of at least its priority that may preempt; false when there is none.
func Promote(in In, v Victims) (Remedy, bool) {
	for _, name := range slices.Sorted(maps.Keys(in.Classes)) {
		c := in.Classes[name]
		if c.Never || c.Value < pod.Priority(in.Pod) || strings.HasPrefix(name, "system-") {
			continue
		}
		edited := in.Pod.DeepCopy()
		edited.Spec.PriorityClassName, edited.Spec.Priority, edited.Spec.PreemptionPolicy = name, nil, nil
		return Remedy{Kind: "priority", Node: v.Node, Run: podCommands(in.Owner, in.Pod, edited),
			Say: fmt.Sprintf("use the priority class %s (%d, may preempt): %s then makes room on %s", name, c.Value, names(v.Pods), v.Node)}, true
	}
	return Remedy{}, false
}

func names(pods []*v1.Pod) string {
	out := make([]string, len(pods))
	for i, p := range pods {
		out[i] = p.Name
	}
	return strings.Join(out, " and ")
}
