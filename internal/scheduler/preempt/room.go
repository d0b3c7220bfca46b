package preempt

import (
	"context"
	"slices"

	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// roomsKept bounds the Pods that are kept sorted, of all nodes together.
const roomsKept = 1 << 17

// rooms are nodes with their Pods in order of importance, for shapes of any kind: a node is sorted once, not once for every shape that is tried on it.
type rooms struct {
	of   []room // by row
	kept int    // Pods in them
}

// room is a node's Pods, the most important first, and what is read of each of them, side by side, as looking it up in the Pods costs more than adding it up.
type room struct {
	node    framework.NodeInfo
	pods    []framework.PodInfo
	tenants []tenant
	used    place.Sum // by all of them
}

// tenant is what is read of a Pod that may have to leave: what it asks for and the harm that its leaving does.
type tenant struct {
	asks place.Sum
	harm
}

func (r *rooms) at(row int32, n framework.NodeInfo) *room {
	at := &r.of[row]
	if at.node == n {
		return at
	}
	if r.kept += len(n.GetPods()) - len(at.pods); r.kept > roomsKept {
		clear(r.of)
		r.kept = len(n.GetPods())
	}
	*at = room{node: n, pods: slices.Clone(n.GetPods()), tenants: make([]tenant, len(n.GetPods())), used: place.SumOf(snapshot.VectorOf(n.GetRequested()))}
	slices.SortFunc(at.pods, func(a, b framework.PodInfo) int { return importance(a.GetPod(), b.GetPod()) })
	for i, p := range at.pods {
		at.tenants[i] = tenant{askOf(p), harmOf(p.GetPod())}
	}
	return at
}

// below is the place of the first Pod of a lower priority, and what is used without those.
func (r *room) below(priority int32) (first int, used place.Sum) {
	first, used = len(r.tenants), r.used
	for first > 0 && r.tenants[first-1].priority < priority {
		first--
		used.Sub(r.tenants[first].asks)
	}
	return first, used
}

func askOf(p framework.PodInfo) place.Sum {
	s := place.SumOf(snapshot.VectorOf(p.CalculateResource().Resource))
	s.Pods = 1
	return s
}

// ledger is the filters that are asked about a Pod, where each reads the node alone or what its Pods ask for together: then who must leave is found by adding up.
type ledger []entry

type entry struct {
	judge []framework.FilterPlugin // one
	spare place.Spare              // nil: it reads the node alone
}

// newLedger gives nil when one of the filters reads more.
func newLedger(in *In) ledger {
	out := ledger{}
	for _, f := range in.Judges.Filter {
		if in.State.GetSkipFilterPlugins().Has(f.Name()) {
			continue
		}
		e := entry{judge: []framework.FilterPlugin{f}}
		if x, ok := f.(place.Spacious); ok {
			e.spare = x.Spare(in.Pod)
		}
		if _, ok := f.(place.Podless); !ok && e.spare == nil {
			return nil
		}
		out = append(out, e)
	}
	return out
}

// heard tells how many of the filters have had their say when one refused a node: those before it let the Pod pass.
func (l ledger) heard(refusal *framework.Status) int {
	return max(slices.IndexFunc(l, func(e entry) bool { return e.judge[0].Name() == refusal.Plugin() }), 0)
}

// admits asks the filters about a node of which so much is used; the first ones, as many as were heard, only where they read that.
func (l ledger) admits(ctx context.Context, t *addition, used place.Sum) *framework.Status {
	for i, e := range l {
		var s *framework.Status
		switch {
		case e.spare != nil:
			s = e.spare(used, t.node)
		case i >= t.heard:
			s = place.Filter(ctx, t.In.In, e.judge, t.node)
		}
		if s != nil {
			return s
		}
	}
	return nil
}

// suffices asks again, with more used, those that read how much that is.
func (l ledger) suffices(n framework.NodeInfo, used place.Sum) bool {
	for _, e := range l {
		if e.spare != nil && e.spare(used, n) != nil {
			return false
		}
	}
	return true
}

// addition is a try that is made by adding up.
type addition struct {
	*search
	*try
	heard int
}

// addUp is attempt by adding up.
func (s *search) addUp(ctx context.Context, t *try, row int32) {
	all := s.Tried.rooms.at(row, t.node)
	first, used := all.below(pod.Priority(s.Pod))
	if t.lower = all.pods[first:]; len(t.lower) == 0 {
		t.status = framework.NewStatus(framework.UnschedulableAndUnresolvable, NoVictims)
		return
	}
	for _, r := range t.rivals { // where it has room beside them, it has room without
		used.Add(askOf(r))
	}
	a := addition{s, t, s.heard(row)}
	if t.status = s.ledger.admits(ctx, &a, used); t.status != nil {
		return
	}
	t.weight, t.leave = unharmed(), s.slab(len(t.lower))
	if len(s.budgets) == 0 {
		for i := range t.lower {
			a.back(&used, &all.tenants[first+i], i)
		}
	} else {
		for i := range s.order(t) {
			a.back(&used, &all.tenants[first+i], i)
		}
		slices.Sort(t.leave)
	}
	s.gone, t.leave = s.gone[:len(s.gone)+len(t.leave)], slices.Clip(t.leave)
}

// back gives a Pod its place again unless the preemptor would not fit then.
func (a *addition) back(used *place.Sum, t *tenant, at int) {
	used.Add(t.asks)
	if a.ledger.suffices(a.node, *used) {
		return
	}
	used.Sub(t.asks)
	a.leave = append(a.leave, int32(at))
	a.add(t.harm)
}
