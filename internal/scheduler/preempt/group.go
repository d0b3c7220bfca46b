package preempt

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// NoGroupVictims says that nobody's leaving gives the group room.
const NoGroupVictims = "No preemption victims found for incoming pod group"

// Group is what a search for the Pods of a PodGroup is made from. KEP-5710.
type Group struct {
	Pods     []*v1.Pod // without a node, in the order they are placed
	Need     int       // so many of them must have one
	Priority int32     // of the group: Pods below it may have to leave
	World    *snapshot.Snapshot
	Judges   *place.Judges
	Budgets  []*policy.PodDisruptionBudget
	With     func(*v1.Pod) []types.UID // Pods that can only leave together with this one; nil: every Pod stands alone
}

// GroupChoice is the outcome: where the Pods would stand and who must leave for that, or a message why not.
type GroupChoice struct {
	On      map[types.UID]string
	Victims []*v1.Pod // the most important first
	Units   int       // of victims: those that can only leave together count once
	Broken  int       // victims whose leaving a budget does not allow
	Message string
}

// unit is Pods that leave together.
type unit struct {
	pods  []framework.PodInfo
	nodes []string // where each stands
	broke int      // of them, those whose leaving a budget does not allow
}

// SearchGroup takes all Pods of lower priority away and puts back, the most important first, as many as leave the group its room.
func SearchGroup(ctx context.Context, in Group) (GroupChoice, error) {
	for _, p := range in.Pods {
		if p.Spec.PreemptionPolicy != nil && *p.Spec.PreemptionPolicy == v1.PreemptNever {
			return GroupChoice{Message: Never}, nil
		}
		if leaving(in, p) {
			return GroupChoice{Message: AlreadyOn}, nil
		}
	}
	units, err := in.units()
	if err != nil {
		return GroupChoice{}, err
	}
	world := in.World
	for _, u := range units {
		if world, err = u.out(world); err != nil {
			return GroupChoice{}, err
		}
	}
	on, ok := in.fits(ctx, world)
	if len(units) == 0 || !ok {
		return GroupChoice{Message: NoGroupVictims}, nil
	}
	away, near := apart(units, on)
	if all, err := putBackAll(world, away); err != nil {
		return GroupChoice{}, err
	} else if now, ok := in.fits(ctx, all); ok {
		world, on, units = all, now, near
	}
	var c GroupChoice
	for _, u := range units {
		with, err := u.in(world)
		if err != nil {
			return GroupChoice{}, err
		}
		if now, ok := in.fits(ctx, with); ok && ctx.Err() == nil {
			world, on = with, now
			continue
		}
		c.Units++
		c.Broken += u.broke
		for _, p := range u.pods {
			c.Victims = append(c.Victims, p.GetPod())
		}
	}
	slices.SortStableFunc(c.Victims, importance)
	if c.On = on; ctx.Err() != nil {
		return GroupChoice{}, context.Cause(ctx)
	}
	return c, nil
}

// leaving tells whether victims of an earlier search still leave the node promised to a Pod.
func leaving(in Group, p *v1.Pod) bool {
	n := in.World.Node(p.Status.NominatedNodeName)
	return n != nil && slices.ContainsFunc(n.GetPods(), func(other framework.PodInfo) bool {
		o := other.GetPod()
		return pod.Priority(o) < in.Priority && o.DeletionTimestamp != nil && disrupted(o)
	})
}

// units lists who may have to leave: those whose leaving breaks a budget first, then the most important.
func (in Group) units() ([]unit, error) {
	budgets, err := readBudgets(in.Budgets)
	if err != nil {
		return nil, err
	}
	at, lower := map[types.UID]string{}, []framework.PodInfo{}
	byUID := map[types.UID]framework.PodInfo{}
	for _, n := range in.World.All() {
		for _, p := range n.GetPods() {
			at[p.GetPod().UID], byUID[p.GetPod().UID] = n.Node().Name, p
			if pod.Priority(p.GetPod()) < in.Priority {
				lower = append(lower, p)
			}
		}
	}
	slices.SortFunc(lower, func(a, b framework.PodInfo) int { return importance(a.GetPod(), b.GetPod()) })
	breaking, harmless := split(lower, budgets)
	var out []unit
	taken := map[types.UID]bool{}
	for _, p := range slices.Concat(breaking, harmless) {
		if taken[p.GetPod().UID] {
			continue
		}
		u, may := unit{pods: []framework.PodInfo{p}, nodes: []string{at[p.GetPod().UID]}}, true
		if in.With != nil {
			for _, uid := range in.With(p.GetPod()) {
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
				u.broke++
			}
		}
		if may {
			out = append(out, u)
		}
	}
	return out, nil
}

func (u unit) out(w *snapshot.Snapshot) (_ *snapshot.Snapshot, err error) {
	for i, p := range u.pods {
		if w, err = w.WithoutPod(p.GetPod(), u.nodes[i]); err != nil {
			return nil, fmt.Errorf("taking Pod %s away in thought: %w", pod.Key(p.GetPod()), err)
		}
	}
	return w, nil
}

func (u unit) in(w *snapshot.Snapshot) (_ *snapshot.Snapshot, err error) {
	for i, p := range u.pods {
		if w, err = w.WithPod(p, u.nodes[i]); err != nil {
			return nil, fmt.Errorf("putting Pod %s back in thought: %w", pod.Key(p.GetPod()), err)
		}
	}
	return w, nil
}

func putBackAll(w *snapshot.Snapshot, units []unit) (_ *snapshot.Snapshot, err error) {
	for _, u := range units {
		if w, err = u.in(w); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// apart parts units into those that stand on no node of the placement and the others.
func apart(units []unit, on map[types.UID]string) (away, near []unit) {
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

// fits places the Pods one after the other and tells whether enough have a node.
func (in Group) fits(ctx context.Context, w *snapshot.Snapshot) (map[types.UID]string, bool) {
	on := map[types.UID]string{}
	for i, p := range in.Pods {
		if len(on)+len(in.Pods)-i < in.Need {
			return nil, false
		}
		r := place.One(ctx, place.In{Pod: p, World: w, Judges: in.Judges})
		if !r.Fits() {
			continue
		}
		standing := *p
		standing.Spec.NodeName = r.Winner
		info, err := snapshot.NewPodInfo(&standing)
		if err != nil {
			continue // it was judged with such a term, which no node fits
		}
		if w, err = w.WithPod(info, r.Winner); err != nil {
			return nil, false
		}
		on[p.UID] = r.Winner
	}
	return on, len(on) >= in.Need
}
