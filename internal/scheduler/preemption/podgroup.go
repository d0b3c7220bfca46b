package preemption

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// NoGroupVictims says that nobody's leaving gives the group room.
const NoGroupVictims = "No preemption victims found for incoming pod group"

// PodGroupInput is what a search for the Pods of a PodGroup is made from. KEP-5710.
type PodGroupInput struct {
	Pods     []*v1.Pod // without a node, in the order they are placed
	MinCount int       // so many of them must have one
	Priority int32     // of the group: Pods below it may have to leave
	Snapshot *snapshot.Snapshot
	Plugins  *schedule.PluginSet
	Budgets  []*policy.PodDisruptionBudget
	// Pods that can only leave together with this one; nil: every Pod stands alone
	DisruptedTogether func(*v1.Pod) []types.UID
}

// PodGroupCandidate is the outcome: where the Pods would stand and who must leave for that, or a
// message why not.
type PodGroupCandidate struct {
	NodeOf        map[types.UID]string
	Victims       []*v1.Pod // the most important first
	Units         int       // of victims: those that can only leave together count once
	PDBViolations int       // victims whose leaving a budget does not allow
	Message       string
}

// disruptionUnit is Pods that leave together.
type disruptionUnit struct {
	pods          []framework.PodInfo
	nodes         []string // where each stands
	pdbViolations int      // of them, those whose leaving a budget does not allow
}

// PreemptForPodGroup takes all Pods of lower priority away and puts back, the most important first,
// as many as leave the group its room.
func PreemptForPodGroup(ctx context.Context, in PodGroupInput) (PodGroupCandidate, error) {
	for _, p := range in.Pods {
		if p.Spec.PreemptionPolicy != nil && *p.Spec.PreemptionPolicy == v1.PreemptNever {
			return PodGroupCandidate{Message: PolicyNever}, nil
		}
		if hasTerminatingVictims(in, p) {
			return PodGroupCandidate{Message: TerminatingVictims}, nil
		}
	}
	units, err := in.disruptionUnits()
	if err != nil {
		return PodGroupCandidate{}, err
	}
	snap := in.Snapshot
	for _, u := range units {
		if snap, err = u.removeFrom(snap); err != nil {
			return PodGroupCandidate{}, err
		}
	}
	on, ok := in.placePods(ctx, snap)
	if len(units) == 0 || !ok {
		return PodGroupCandidate{Message: NoGroupVictims}, nil
	}
	away, near := splitByPlacement(units, on)
	if all, err := addUnits(snap, away); err != nil {
		return PodGroupCandidate{}, err
	} else if now, ok := in.placePods(ctx, all); ok {
		snap, on, units = all, now, near
	}
	var c PodGroupCandidate
	for _, u := range units {
		with, err := u.addTo(snap)
		if err != nil {
			return PodGroupCandidate{}, err
		}
		if now, ok := in.placePods(ctx, with); ok && ctx.Err() == nil {
			snap, on = with, now
			continue
		}
		c.Units++
		c.PDBViolations += u.pdbViolations
		for _, p := range u.pods {
			c.Victims = append(c.Victims, p.GetPod())
		}
	}
	slices.SortStableFunc(c.Victims, moreImportantPod)
	if c.NodeOf = on; ctx.Err() != nil {
		return PodGroupCandidate{}, context.Cause(ctx)
	}
	return c, nil
}

// hasTerminatingVictims tells whether victims of an earlier search still leave the node that a Pod
// is nominated to.
func hasTerminatingVictims(in PodGroupInput, p *v1.Pod) bool {
	n := in.Snapshot.Node(p.Status.NominatedNodeName)
	return n != nil && slices.ContainsFunc(n.GetPods(), func(other framework.PodInfo) bool {
		o := other.GetPod()
		return pod.Priority(o) < in.Priority && o.DeletionTimestamp != nil && isTerminatingByPreemption(o)
	})
}

// disruptionUnits lists who may have to leave: those whose leaving breaks a budget first, then the
// most important.
func (in PodGroupInput) disruptionUnits() ([]disruptionUnit, error) {
	budgets, err := compilePDBs(in.Budgets)
	if err != nil {
		return nil, err
	}
	at, lower := map[types.UID]string{}, []framework.PodInfo{}
	byUID := map[types.UID]framework.PodInfo{}
	for _, n := range in.Snapshot.All() {
		for _, p := range n.GetPods() {
			at[p.GetPod().UID], byUID[p.GetPod().UID] = n.Node().Name, p
			if pod.Priority(p.GetPod()) < in.Priority {
				lower = append(lower, p)
			}
		}
	}
	slices.SortFunc(lower, func(a, b framework.PodInfo) int { return moreImportantPod(a.GetPod(), b.GetPod()) })
	breaking, harmless := filterPodsWithPDBViolation(lower, budgets)
	var out []disruptionUnit
	taken := map[types.UID]bool{}
	for _, p := range slices.Concat(breaking, harmless) {
		if taken[p.GetPod().UID] {
			continue
		}
		u, may := disruptionUnit{pods: []framework.PodInfo{p}, nodes: []string{at[p.GetPod().UID]}}, true
		if in.DisruptedTogether != nil {
			for _, uid := range in.DisruptedTogether(p.GetPod()) {
				other := byUID[uid]
				if other == nil || uid == p.GetPod().UID {
					continue
				}
				may = may && pod.Priority(other.GetPod()) < in.Priority
				u.pods, u.nodes = append(u.pods, other), append(u.nodes, at[uid])
			}
		}
		for _, p := range u.pods {
			taken[p.GetPod().UID] = true
			if slices.Contains(breaking, p) {
				u.pdbViolations++
			}
		}
		if may {
			out = append(out, u)
		}
	}
	return out, nil
}

func (u disruptionUnit) removeFrom(w *snapshot.Snapshot) (_ *snapshot.Snapshot, err error) {
	for i, p := range u.pods {
		if w, err = w.WithoutPod(p.GetPod(), u.nodes[i]); err != nil {
			return nil, fmt.Errorf("taking Pod %s away in thought: %w", pod.Key(p.GetPod()), err)
		}
	}
	return w, nil
}

func (u disruptionUnit) addTo(w *snapshot.Snapshot) (_ *snapshot.Snapshot, err error) {
	for i, p := range u.pods {
		if w, err = w.WithPod(p, u.nodes[i]); err != nil {
			return nil, fmt.Errorf("putting Pod %s back in thought: %w", pod.Key(p.GetPod()), err)
		}
	}
	return w, nil
}

func addUnits(w *snapshot.Snapshot, units []disruptionUnit) (_ *snapshot.Snapshot, err error) {
	for _, u := range units {
		if w, err = u.addTo(w); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// splitByPlacement parts units into those that stand on no node of the placement and the others.
func splitByPlacement(units []disruptionUnit, on map[types.UID]string) (away, near []disruptionUnit) {
	used := map[string]bool{}
	for _, n := range on {
		used[n] = true
	}
	for _, u := range units {
		if slices.ContainsFunc(u.nodes, func(n string) bool { return used[n] }) {
			near = append(near, u)
		} else {
			away = append(away, u)
		}
	}
	return away, near
}

// placePods places the Pods one after the other and tells whether enough have a node.
func (in PodGroupInput) placePods(ctx context.Context, w *snapshot.Snapshot) (map[types.UID]string, bool) {
	on := map[types.UID]string{}
	for i, p := range in.Pods {
		if len(on)+len(in.Pods)-i < in.MinCount {
			return nil, false
		}
		r := schedule.SchedulePod(ctx, schedule.Input{Pod: p, Snapshot: w, Plugins: in.Plugins})
		if !r.Scheduled() {
			continue
		}
		standing := *p
		standing.Spec.NodeName = r.SuggestedHost
		info, err := snapshot.NewPodInfo(&standing)
		if err != nil {
			continue // it was evaluated with such a term, which no node fits
		}
		if w, err = w.WithPod(info, r.SuggestedHost); err != nil {
			return nil, false
		}
		on[p.UID] = r.SuggestedHost
	}
	return on, len(on) >= in.MinCount
}
