package preempt

import (
	"context"
	"slices"
	"sort"

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

// room is a node's Pods, the most important first, and what each of them asks for.
type room struct {
	node framework.NodeInfo
	pods []framework.PodInfo
	asks []place.Sum
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
	*at = room{node: n, pods: slices.Clone(n.GetPods()), asks: make([]place.Sum, len(n.GetPods()))}
	slices.SortFunc(at.pods, func(a, b framework.PodInfo) int { return importance(a.GetPod(), b.GetPod()) })
	for i, p := range at.pods {
		at.asks[i] = askOf(p)
	}
	return at
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

// admits asks all filters about a node of which so much is used.
func (l ledger) admits(ctx context.Context, in *In, n framework.NodeInfo, used place.Sum) *framework.Status {
	for _, e := range l {
		var s *framework.Status
		if e.spare != nil {
			s = e.spare(used, n)
		} else {
			s = place.Filter(ctx, in.In, e.judge, n)
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

// addUp is attempt by adding up.
func (s *search) addUp(ctx context.Context, t *try, row int32) {
	all := s.Tried.rooms.at(row, t.node)
	first := sort.Search(len(all.pods), func(i int) bool { return pod.Priority(all.pods[i].GetPod()) < pod.Priority(s.Pod) })
	asks := all.asks[first:]
	if t.lower = all.pods[first:]; len(t.lower) == 0 {
		t.status = framework.NewStatus(framework.UnschedulableAndUnresolvable, NoVictims)
		return
	}
	used := place.SumOf(snapshot.VectorOf(t.node.GetRequested()))
	for _, a := range asks {
		used.Sub(a)
	}
	for _, r := range t.rivals { // where it has room beside them, it has room without
		used.Add(askOf(r))
	}
	if t.status = s.ledger.admits(ctx, s.In, t.node, used); t.status != nil {
		return
	}
	back := func(i int, p framework.PodInfo, ask place.Sum) {
		used.Add(ask)
		if s.ledger.suffices(t.node, used) {
			return
		}
		used.Sub(ask)
		if t.victims = append(t.victims, p.GetPod()); i < len(t.breaking) {
			t.broken++
		}
	}
	if len(s.budgets) == 0 {
		for i, p := range t.lower {
			back(i, p, asks[i])
		}
	} else {
		var harmless []framework.PodInfo
		t.breaking, harmless = split(t.lower, s.budgets)
		for i, p := range slices.Concat(t.breaking, harmless) {
			back(i, p, askOf(p))
		}
		slices.SortStableFunc(t.victims, importance)
	}
	t.weigh()
}
