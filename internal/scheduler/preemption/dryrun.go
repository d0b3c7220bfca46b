package preemption

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// rowStatuses is what place's own readers offer: the status of the node at a place in the
// snapshot's list.
type rowStatuses interface{ Row(int) *framework.Status }

// nodesWherePreemptionMightHelp lists the nodes, by their place in the snapshot's list, that
// others' leaving may help.
func nodesWherePreemptionMightHelp(in *Input) []int32 {
	fast, ok := in.NodeToStatus.(rowStatuses)
	out := in.SearchCache.rowBuffer(2 * in.Snapshot.Len())
	var last *framework.Status // nodes are refused for few reasons
	helps := false
	for row := range in.Snapshot.Len() {
		var s *framework.Status
		if ok {
			s = fast.Row(row)
		} else {
			s = in.NodeToStatus.Get(in.Snapshot.At(row).Node().Name)
		}
		if s != last || row == 0 {
			last, helps = s, s.Code() == framework.Unschedulable
		}
		if helps {
			out = append(out, int32(row))
		}
	}
	return out
}

// dryRun tries the nodes from a random one on, as upstream, until there are enough candidates, at
// least one of which breaks no budget.
func dryRun(ctx context.Context, in *Input, budgets []pdb) (results, candidates []*dryRunResult) {
	rows := nodesWherePreemptionMightHelp(in)
	if len(rows) == 0 {
		return nil, nil
	}
	enough, from := max(min(max(len(rows)*int(in.Percent)/100, int(in.Absolute)), len(rows)), 1), 0
	if in.PickTie != nil {
		from = in.PickTie(len(rows))
	}
	rows = append(rows, rows[:from]...)[from:]
	s := newDryRunSearch(in, budgets)
	harmless := false
	results, candidates = make([]*dryRunResult, 0, enough), make([]*dryRunResult, 0, enough)
	for len(rows) > 0 && (len(candidates) < enough || !harmless) {
		round := s.candidatesOf(ctx, rows[:min(enough, len(rows))])
		rows = rows[len(round):]
		results = append(results, round...)
		for _, t := range round {
			if t.status == nil {
				candidates = append(candidates, t)
				harmless = harmless || t.pdbViolations == 0
			}
		}
	}
	return results, candidates
}

// dryRunSearch is one search for victims.
type dryRunSearch struct {
	in              *Input
	budgets         []pdb
	cached          *shapeCandidates  // tries that may still hold; nil: none are kept for this Pod
	resourceFilters resourceFilters   // nil: nodes are tried by taking Pods away and asking the filters
	hasNominated    bool              // SearchCache lists the nominated Pods of each row
	statuses        rowStatuses       // nil: what was said of a node is not looked up
	lastRefusal     *framework.Status // looked up last
	passedFilters   int               // filters that ran before it
	victimRowsPool  []int32           // room for tries' victims
	candidates      []dryRunResult    // room for tries
}

// newDryRunSearch prepares the search for candidates; with a SearchCache, it compares what Pods
// request with what is free before it asks any plugin.
func newDryRunSearch(in *Input, budgets []pdb) *dryRunSearch {
	s := &dryRunSearch{in: in, budgets: budgets}
	if s.cached = in.SearchCache.candidatesOf(in); s.cached != nil {
		s.resourceFilters = newResourceFilters(in)
	}
	if s.statuses, _ = in.NodeToStatus.(rowStatuses); in.NominatedPodsForNode != nil && in.NominatedNodes != nil &&
		in.SearchCache.sameLayout(in) {
		in.SearchCache.nominated.Sync(&in.Input)
		s.hasNominated = true
	}
	return s
}

// filtersPassed tells how many filters of the column engine passed a row before one refused it.
func (s *dryRunSearch) filtersPassed(row int32) int {
	if s.statuses == nil {
		return 0
	}
	if said := s.statuses.Row(int(row)); said != s.lastRefusal || s.lastRefusal == nil {
		s.lastRefusal, s.passedFilters = said, s.resourceFilters.filtersPassed(said)
	}
	return s.passedFilters
}

// candidateChunk is how many tries, and some four times as many victims, share a piece of memory.
const candidateChunk = 32

// newCandidate begins a try.
func (s *dryRunSearch) newCandidate(b dryRunInputs) *dryRunResult {
	if len(s.candidates) == 0 {
		s.candidates = make([]dryRunResult, candidateChunk)
	}
	t := &s.candidates[0]
	s.candidates = s.candidates[1:]
	t.dryRunInputs = b
	return t
}

// victimRowsBuffer is room for the victims of a try.
func (s *dryRunSearch) victimRowsBuffer(n int) []int32 {
	if cap(s.victimRowsPool)-len(s.victimRowsPool) < n {
		s.victimRowsPool = make([]int32, 0, max(n, 4*candidateChunk))
	}
	return s.victimRowsPool[len(s.victimRowsPool) : len(s.victimRowsPool) : len(s.victimRowsPool)+n]
}

// nominatedOn are the Pods nominated to a node whose priority is not lower, for which it must have
// room too.
func (s *dryRunSearch) nominatedOn(row int32, node framework.NodeInfo) []framework.PodInfo {
	switch {
	case s.in.NominatedPodsForNode == nil:
		return nil
	case s.hasNominated:
		return s.nominatedWithPriority(s.in.SearchCache.nominated.Pods(row))
	}
	return s.nominatedWithPriority(s.in.NominatedPodsForNode(node.Node().Name))
}

// nominatedWithPriority are those of the Pods nominated to a node whose priority is not lower.
func (s *dryRunSearch) nominatedWithPriority(all []framework.PodInfo) []framework.PodInfo {
	counts := func(i framework.PodInfo) bool {
		return i.GetPod().UID != s.in.Pod.UID && pod.Priority(i.GetPod()) >= pod.Priority(s.in.Pod)
	}
	for n, i := range all {
		if counts(i) {
			continue
		}
		out := slices.Clone(all[:n])
		for _, i := range all[n+1:] {
			if counts(i) {
				out = append(out, i)
			}
		}
		return out
	}
	return all
}

// candidatesOf gives a try for each row: the one that is kept where it still holds, else a new one.
func (s *dryRunSearch) candidatesOf(ctx context.Context, rows []int32) []*dryRunResult {
	out := make([]*dryRunResult, len(rows))
	var stale []int
	for i, row := range rows {
		node := s.in.Snapshot.At(int(row))
		basis := dryRunInputs{node: node, nominated: s.nominatedOn(row, node)}
		if s.cached != nil {
			if t := s.cached.candidates[row]; t != nil && s.isCurrent(t, &basis) {
				out[i] = t
				continue
			}
		}
		out[i] = s.newCandidate(basis)
		stale = append(stale, i)
	}
	one := func(i int) { s.selectVictimsOnNode(ctx, out[stale[i]]) }
	if s.resourceFilters != nil {
		for _, i := range stale {
			s.selectVictimsByRequests(ctx, out[i], rows[i])
		}
	} else if s.in.Parallel != nil && len(stale) > 1 {
		s.in.Parallel(len(stale), one)
	} else {
		for i := range stale {
			one(i)
		}
	}
	if s.cached != nil && ctx.Err() == nil {
		s.in.SearchCache.counts.Misses += int64(len(stale))
		s.in.SearchCache.counts.Hits += int64(len(out) - len(stale))
		for _, i := range stale {
			if t := out[i]; !t.status.IsError() {
				if t.pdbState != nil {
					t.pdbState.pdbGeneration = s.in.SearchCache.pdbGeneration
				}
				s.cached.candidates[rows[i]] = t
			}
		}
	}
	return out
}

// selectVictimsOnNode takes all Pods of lower priority off a node and puts back as many as the Pod
// leaves room for.
func (s *dryRunSearch) selectVictimsOnNode(ctx context.Context, t *dryRunResult) {
	in := *s.in
	in.State = in.State.Clone()
	for _, other := range t.node.GetPods() {
		if pod.Priority(other.GetPod()) < pod.Priority(in.Pod) {
			t.potentialVictims = append(t.potentialVictims, other)
		}
	}
	if len(t.potentialVictims) == 0 {
		t.status = framework.NewStatus(framework.UnschedulableAndUnresolvable, NoVictims)
		return
	}
	rest := t.node.Snapshot()
	for _, other := range t.potentialVictims {
		if t.status = removePod(ctx, &in, other, rest); t.status != nil {
			return
		}
	}
	if s := schedule.PassesFilters(ctx, in.Input, rest); !s.IsSuccess() {
		t.status = s
		return
	}
	slices.SortFunc(t.potentialVictims,
		func(a, b framework.PodInfo) int { return moreImportantPod(a.GetPod(), b.GetPod()) })
	t.candidateCost = noVictimsCost()
	for i := range s.reprieveOrder(t) {
		fits, status := reprievePod(ctx, &in, t.potentialVictims[i], rest)
		if status != nil {
			t.status = status
			return
		}
		if !fits {
			t.victimRows = append(t.victimRows, int32(i))
			t.add(victimCostOf(t.potentialVictims[i].GetPod()))
		}
	}
	slices.Sort(t.victimRows)
}

// reprieveOrder goes through the Pods that may stay after all: first those whose leaving would
// break a budget, each time the most important before others. It counts the ones among the first
// that are to leave.
func (s *dryRunSearch) reprieveOrder(t *dryRunResult) iter.Seq[int] {
	return func(yield func(int) bool) {
		breaks := make([]bool, len(t.potentialVictims))
		if len(s.budgets) > 0 {
			t.pdbState = &pdbState{violating: markPDBViolations(t.potentialVictims, s.budgets, breaks)}
		}
		for _, now := range [...]bool{true, false} {
			for i := range t.potentialVictims {
				if breaks[i] == now && !yield(i) {
					return
				}
			}
			if now {
				t.pdbViolations = len(t.victimRows)
			}
		}
	}
}

// reprievePod gives a Pod its place again unless the preemptor would not fit then.
func reprievePod(ctx context.Context, in *Input, other framework.PodInfo,
	n framework.NodeInfo) (bool, *framework.Status) {
	n.AddPodInfo(other)
	if s := runPreFilterExtensions(in, func(e framework.PreFilterExtensions) *framework.Status {
		return e.AddPod(ctx, in.State, in.Pod, other, n)
	}); s != nil {
		return false, s
	}
	if schedule.PassesFilters(ctx, in.Input, n).IsSuccess() {
		return true, nil
	}
	return false, removePod(ctx, in, other, n)
}

func removePod(ctx context.Context, in *Input, other framework.PodInfo, n framework.NodeInfo) *framework.Status {
	if err := n.RemovePod(logr.Discard(), other.GetPod()); err != nil {
		return framework.AsStatus(err)
	}
	return runPreFilterExtensions(in, func(e framework.PreFilterExtensions) *framework.Status {
		return e.RemovePod(ctx, in.State, in.Pod, other, n)
	})
}

func runPreFilterExtensions(in *Input, do func(framework.PreFilterExtensions) *framework.Status) *framework.Status {
	for _, pl := range in.Plugins.PreFilter {
		if ext := pl.PreFilterExtensions(); ext != nil && !in.State.GetSkipFilterPlugins().Has(pl.Name()) {
			if s := do(ext); !s.IsSuccess() {
				return framework.AsStatus(fmt.Errorf("PreFilter extension of plugin %q: %w", pl.Name(), s.AsError()))
			}
		}
	}
	return nil
}
