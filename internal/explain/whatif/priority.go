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

// Victims are the Pods of lower priority that would have to leave a node if this Pod could preempt.
type Victims struct {
	Node string
	Pods []*v1.Pod
}

// CheapestVictims returns the node with the fewest victims; none if preemption would not help.
func CheapestVictims(ctx context.Context, in In) Victims {
	s := &search{in: In{Pod: in.Pod, Snapshot: in.Snapshot, Plugins: in.Plugins, MaxAttempts: 60}, ctx: ctx,
		emitted: map[string]bool{}}
	begin := searchState{pod: in.Pod, snapshot: in.Snapshot}
	first := s.schedule(begin)
	if first == nil || first.Scheduled() {
		return Victims{}
	}
	var best Victims
	refusals := first.Refusals(first.Nodes())
	for _, name := range nearestNodes(refusals, maxTargetNodes) {
		i := slices.IndexFunc(refusals, func(r journal.NodeRefusal) bool { return r.Node == name })
		n := in.Snapshot.Node(name)
		if n == nil || len(refusals[i].Shortages) == 0 {
			continue
		}
		var lower []*v1.Pod
		for _, p := range n.GetPods() {
			if pod.Priority(p.GetPod()) < pod.Priority(in.Pod) {
				lower = append(lower, p.GetPod())
			}
		}
		deletedPods := fewestPods(refusals[i].Shortages, lower)
		if len(deletedPods) == 0 || best.Node != "" && len(deletedPods) >= len(best.Pods) {
			continue
		}
		next, err := apply(begin, deletePods(name, deletedPods...))
		if err != nil {
			continue
		}
		if r := s.schedule(next); r != nil && r.Scheduled() {
			best = Victims{Node: name, Pods: deletedPods}
		}
	}
	return best
}

// fewestPods returns the smallest single Pod that suffices, else those that help most, until
// nothing is short.
func fewestPods(short []journal.Shortage, from []*v1.Pod) []*v1.Pod {
	var alone *v1.Pod
	for _, p := range from {
		if shortfallWithout(short, p) == 0 && (alone == nil || weight(short, p) < weight(short, alone)) {
			alone = p
		}
	}
	if alone != nil {
		return []*v1.Pod{alone}
	}
	var deletedPods []*v1.Pod
	for shortfallWithout(short, deletedPods...) > 0 {
		var best *v1.Pod
		least := shortfallWithout(short, deletedPods...)
		for _, p := range from {
			if m := shortfallWithout(short, append(slices.Clip(deletedPods), p)...); !slices.Contains(deletedPods, p) &&
				m < least {
				best, least = p, m
			}
		}
		if best == nil {
			return nil
		}
		deletedPods = append(deletedPods, best)
	}
	return deletedPods
}

// RaisePriority gives the Pod a PriorityClass of at least the needed priority that may preempt;
// false if there is none.
func RaisePriority(in In, v Victims) (Remedy, bool) {
	for _, name := range slices.Sorted(maps.Keys(in.Classes)) {
		c := in.Classes[name]
		if c.Never || c.Value < pod.Priority(in.Pod) || strings.HasPrefix(name, "system-") {
			continue
		}
		edited := in.Pod.DeepCopy()
		edited.Spec.PriorityClassName, edited.Spec.Priority, edited.Spec.PreemptionPolicy = name, nil, nil
		return Remedy{Kind: "priority", Node: v.Node, Run: podCommands(in.Owner, in.Pod, edited),
			Description: fmt.Sprintf("use the priority class %s (%d, may preempt): %s then makes room on %s", name,
				c.Value, podNames(v.Pods), v.Node)}, true
	}
	return Remedy{}, false
}

func podNames(pods []*v1.Pod) string {
	out := make([]string, len(pods))
	for i, p := range pods {
		out[i] = p.Name
	}
	return strings.Join(out, " and ")
}
