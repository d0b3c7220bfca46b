package preemption

import (
	"context"
	"slices"

	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// maxCachedPods bounds the Pods that are kept sorted, of all nodes together.
const maxCachedPods = 1 << 17

// nodeVictimsCache are nodes with their Pods in order of importance, for shapes of any kind: a node
// is sorted once, not once for every shape that is tried on it.
type nodeVictimsCache struct {
	byRow      []nodeVictims // by row
	cachedPods int           // Pods in them
}

// nodeVictims is a node's Pods, the most important first, and what is read of each of them, side by
// side, as looking it up in the Pods costs more than adding it up.
type nodeVictims struct {
	node    framework.NodeInfo
	pods    []framework.PodInfo
	victims []potentialVictim
	used    schedule.RequestTotals // by all of them
}

// potentialVictim is what is read of a Pod that may have to leave: what it requests and the cost
// that its leaving does.
type potentialVictim struct {
	requests schedule.RequestTotals
	victimCost
}

// at is what may be evicted of a node, the most important Pod first; computed anew when the node is
// another than at the last call.
func (r *nodeVictimsCache) at(row int32, n framework.NodeInfo) *nodeVictims {
	at := &r.byRow[row]
	if at.node == n {
		return at
	}
	if r.cachedPods += len(n.GetPods()) - len(at.pods); r.cachedPods > maxCachedPods {
		clear(r.byRow)
		r.cachedPods = len(n.GetPods())
	}
	*at = nodeVictims{node: n, pods: slices.Clone(n.GetPods()), victims: make([]potentialVictim, len(n.GetPods())),
		used: schedule.RequestTotalsOf(snapshot.VectorOf(n.GetRequested()))}
	slices.SortFunc(at.pods, func(a, b framework.PodInfo) int { return moreImportantPod(a.GetPod(), b.GetPod()) })
	for i, p := range at.pods {
		at.victims[i] = potentialVictim{requestsOf(p), victimCostOf(p.GetPod())}
	}
	return at
}

// lowerPriority is the place of the first Pod of a lower priority, and what is used without those.
func (r *nodeVictims) lowerPriority(priority int32) (first int, used schedule.RequestTotals) {
	first, used = len(r.victims), r.used
	for first > 0 && r.victims[first-1].priority < priority {
		first--
		used.Sub(r.victims[first].requests)
	}
	return first, used
}

func requestsOf(p framework.PodInfo) schedule.RequestTotals {
	s := schedule.RequestTotalsOf(snapshot.VectorOf(p.CalculateResource().Resource))
	s.Pods = 1
	return s
}

// resourceFilters is the filters that are asked about a Pod, where each reads the node alone or
// what its Pods ask for together: then who must leave is found by adding up.
type resourceFilters []resourceFilter

type resourceFilter struct {
	filters []framework.FilterPlugin // one
	check   schedule.ResourceCheck   // nil: it reads the node alone
}

// newResourceFilters gives nil when one of the filters reads more.
func newResourceFilters(in *Input) resourceFilters {
	out := resourceFilters{}
	for _, f := range in.Plugins.Filter {
		if in.State.GetSkipFilterPlugins().Has(f.Name()) {
			continue
		}
		e := resourceFilter{filters: []framework.FilterPlugin{f}}
		if x, ok := f.(schedule.ResourceChecker); ok {
			e.check = x.ResourceCheck(in.Pod)
		}
		if _, ok := f.(schedule.IgnoresPods); !ok && e.check == nil {
			return nil
		}
		out = append(out, e)
	}
	return out
}

// filtersPassed tells how many of the filters have had their say when one refused a node: those
// before it let the Pod pass.
func (l resourceFilters) filtersPassed(refusal *framework.Status) int {
	return max(slices.IndexFunc(l, func(e resourceFilter) bool { return e.filters[0].Name() == refusal.Plugin() }), 0)
}

// runFilters asks the filters about a node of which so much is used; the first ones, as many as
// ran before, only where they read that.
func (l resourceFilters) runFilters(ctx context.Context, t *arithmeticDryRun,
	used schedule.RequestTotals) *framework.Status {
	for i, e := range l {
		var s *framework.Status
		switch {
		case e.check != nil:
			s = e.check(used, t.node)
		case i >= t.filtersPassed:
			s = schedule.RunFilterPlugins(ctx, t.in.Input, e.filters, t.node)
		}
		if s != nil {
			return s
		}
	}
	return nil
}

// runResourceChecks asks again, with more used, those that read how much that is.
func (l resourceFilters) runResourceChecks(n framework.NodeInfo, used schedule.RequestTotals) bool {
	for _, e := range l {
		if e.check != nil && e.check(used, n) != nil {
			return false
		}
	}
	return true
}

// arithmeticDryRun is a try that is made by adding up.
type arithmeticDryRun struct {
	*dryRunSearch
	*dryRunResult
	filtersPassed int
}

// selectVictimsByRequests is attempt by adding up.
func (s *dryRunSearch) selectVictimsByRequests(ctx context.Context, t *dryRunResult, row int32) {
	all := s.in.SearchCache.nodeVictims.at(row, t.node)
	first, used := all.lowerPriority(pod.Priority(s.in.Pod))
	if t.potentialVictims = all.pods[first:]; len(t.potentialVictims) == 0 {
		t.status = framework.NewStatus(framework.UnschedulableAndUnresolvable, NoVictims)
		return
	}
	for _, r := range t.nominated { // where it has room beside them, it has room without
		used.Add(requestsOf(r))
	}
	a := arithmeticDryRun{s, t, s.filtersPassed(row)}
	if t.status = s.resourceFilters.runFilters(ctx, &a, used); t.status != nil {
		return
	}
	t.candidateCost, t.victimRows = noVictimsCost(), s.victimRowsBuffer(len(t.potentialVictims))
	if len(s.budgets) == 0 {
		for i := range t.potentialVictims {
			a.reprievePod(&used, &all.victims[first+i], i)
		}
	} else {
		for i := range s.reprieveOrder(t) {
			a.reprievePod(&used, &all.victims[first+i], i)
		}
		slices.Sort(t.victimRows)
	}
	s.victimRowsPool, t.victimRows = s.victimRowsPool[:len(s.victimRowsPool)+len(t.victimRows)],
		slices.Clip(t.victimRows)
}

// reprievePod gives a Pod its place again unless the preemptor would not fit then.
func (a *arithmeticDryRun) reprievePod(used *schedule.RequestTotals, t *potentialVictim, at int) {
	used.Add(t.requests)
	if a.resourceFilters.runResourceChecks(a.node, *used) {
		return
	}
	used.Sub(t.requests)
	a.victimRows = append(a.victimRows, int32(at))
	a.add(t.victimCost)
}
