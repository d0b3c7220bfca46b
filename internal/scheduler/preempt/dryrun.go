package preempt

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/place"
)

// byRow is what place's own readers offer: the status of the node at a place in the snapshot's list.
type byRow interface{ Row(int) *framework.Status }

// potential lists the nodes, by their place in the snapshot's list, that others' leaving may help.
func potential(in *In) []int32 {
	fast, ok := in.Refused.(byRow)
	out := in.Tried.scratch(2 * in.World.Len())
	var last *framework.Status // nodes are refused for few reasons
	helps := false
	for row := range in.World.Len() {
		var s *framework.Status
		if ok {
			s = fast.Row(row)
		} else {
			s = in.Refused.Get(in.World.At(row).Node().Name)
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

// dryRun tries the nodes from a random one on, as upstream, until there are enough candidates, at least one of which breaks no budget.
func dryRun(ctx context.Context, in *In, budgets []budget) (tries, candidates []*try) {
	rows := potential(in)
	if len(rows) == 0 {
		return nil, nil
	}
	enough, from := max(min(max(len(rows)*int(in.Percent)/100, int(in.Absolute)), len(rows)), 1), 0
	if in.Pick != nil {
		from = in.Pick(len(rows))
	}
	rows = append(rows, rows[:from]...)[from:]
	s := newSearch(in, budgets)
	harmless := false
	tries, candidates = make([]*try, 0, enough), make([]*try, 0, enough)
	for len(rows) > 0 && (len(candidates) < enough || !harmless) {
		round := s.round(ctx, rows[:min(enough, len(rows))])
		rows = rows[len(round):]
		tries = append(tries, round...)
		for _, t := range round {
			if t.status == nil {
				candidates = append(candidates, t)
				harmless = harmless || t.broken == 0
			}
		}
	}
	return tries, candidates
}

// search is one search for victims.
type search struct {
	*In
	budgets []budget
	known   *known            // tries that may still hold; nil: none are kept for this Pod
	ledger  ledger            // nil: nodes are tried by taking Pods away and asking the filters
	awaited bool              // Tried says who is promised which row
	fast    byRow             // nil: what was said of a node is not looked up
	refusal *framework.Status // looked up last
	passed  int               // filters that were heard before it
	gone    []int32           // room for tries' victims
	fresh   []try             // room for tries
}

func newSearch(in *In, budgets []budget) *search {
	s := &search{In: in, budgets: budgets}
	if s.known = in.Tried.recall(in); s.known != nil {
		s.ledger = newLedger(in)
	}
	if s.fast, _ = in.Refused.(byRow); in.Nominated != nil && in.Promised != nil && in.Tried.follows(in) {
		in.Tried.who.Follow(&in.In)
		s.awaited = true
	}
	return s
}

// heard tells how many filters of the ledger passed a row before one refused it.
func (s *search) heard(row int32) int {
	if s.fast == nil {
		return 0
	}
	if said := s.fast.Row(int(row)); said != s.refusal || s.refusal == nil {
		s.refusal, s.passed = said, s.ledger.heard(said)
	}
	return s.passed
}

// chunk is how many tries, and some four times as many victims, share a piece of memory.
const chunk = 32

// try begins a try.
func (s *search) try(b basis) *try {
	if len(s.fresh) == 0 {
		s.fresh = make([]try, chunk)
	}
	t := &s.fresh[0]
	s.fresh = s.fresh[1:]
	t.basis = b
	return t
}

// slab is room for the victims of a try.
func (s *search) slab(n int) []int32 {
	if cap(s.gone)-len(s.gone) < n {
		s.gone = make([]int32, 0, max(n, 4*chunk))
	}
	return s.gone[len(s.gone) : len(s.gone) : len(s.gone)+n]
}

// promisedOn are the Pods promised a node whose priority is not lower, for which it must have room too.
func (s *search) promisedOn(row int32, node framework.NodeInfo) []framework.PodInfo {
	switch {
	case s.Nominated == nil:
		return nil
	case s.awaited:
		return s.rivals(s.Tried.who.On(row))
	}
	return s.rivals(s.Nominated(node.Node().Name))
}

// rivals are those of the Pods promised a node whose priority is not lower.
func (s *search) rivals(all []framework.PodInfo) []framework.PodInfo {
	counts := func(i framework.PodInfo) bool {
		return i.GetPod().UID != s.Pod.UID && pod.Priority(i.GetPod()) >= pod.Priority(s.Pod)
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

// round gives a try for each row: the one that is kept where it still holds, else a new one.
func (s *search) round(ctx context.Context, rows []int32) []*try {
	out := make([]*try, len(rows))
	var stale []int
	for i, row := range rows {
		node := s.World.At(int(row))
		basis := basis{node: node, rivals: s.promisedOn(row, node)}
		if s.known != nil {
			if t := s.known.tries[row]; t != nil && s.holds(t, &basis) {
				out[i] = t
				continue
			}
		}
		out[i] = s.try(basis)
		stale = append(stale, i)
	}
	one := func(i int) { s.attempt(ctx, out[stale[i]]) }
	if s.ledger != nil {
		for _, i := range stale {
			s.addUp(ctx, out[i], rows[i])
		}
	} else if s.Each != nil && len(stale) > 1 {
		s.Each(len(stale), one)
	} else {
		for i := range stale {
			one(i)
		}
	}
	if s.known != nil && ctx.Err() == nil {
		s.Tried.counts.Made += int64(len(stale))
		s.Tried.counts.Held += int64(len(out) - len(stale))
		for _, i := range stale {
			if t := out[i]; !t.status.IsError() {
				if t.told != nil {
					t.told.edition = s.Tried.edition
				}
				s.known.tries[rows[i]] = t
			}
		}
	}
	return out
}

// attempt takes all Pods of lower priority off a node and puts back as many as the Pod leaves room for.
func (s *search) attempt(ctx context.Context, t *try) {
	in := *s.In
	in.State = in.State.Clone()
	for _, other := range t.node.GetPods() {
		if pod.Priority(other.GetPod()) < pod.Priority(in.Pod) {
			t.lower = append(t.lower, other)
		}
	}
	if len(t.lower) == 0 {
		t.status = framework.NewStatus(framework.UnschedulableAndUnresolvable, NoVictims)
		return
	}
	rest := t.node.Snapshot()
	for _, other := range t.lower {
		if t.status = remove(ctx, &in, other, rest); t.status != nil {
			return
		}
	}
	if s := place.Admits(ctx, in.In, rest); !s.IsSuccess() {
		t.status = s
		return
	}
	slices.SortFunc(t.lower, func(a, b framework.PodInfo) int { return importance(a.GetPod(), b.GetPod()) })
	t.weight = unharmed()
	for i := range s.order(t) {
		fits, status := putBack(ctx, &in, t.lower[i], rest)
		if status != nil {
			t.status = status
			return
		}
		if !fits {
			t.leave = append(t.leave, int32(i))
			t.add(harmOf(t.lower[i].GetPod()))
		}
	}
	slices.Sort(t.leave)
}

// order goes through the Pods that may stay after all: first those whose leaving would break a budget, each time the most important before others. It counts the ones
// among the first that are to leave.
func (s *search) order(t *try) iter.Seq[int] {
	return func(yield func(int) bool) {
		breaks := make([]bool, len(t.lower))
		if len(s.budgets) > 0 {
			t.told = &told{breaking: marked(t.lower, s.budgets, breaks)}
		}
		for _, now := range [...]bool{true, false} {
			for i := range t.lower {
				if breaks[i] == now && !yield(i) {
					return
				}
			}
			if now {
				t.broken = len(t.leave)
			}
		}
	}
}

// putBack gives a Pod its place again unless the preemptor would not fit then.
func putBack(ctx context.Context, in *In, other framework.PodInfo, n framework.NodeInfo) (bool, *framework.Status) {
	n.AddPodInfo(other)
	if s := extend(in, func(e framework.PreFilterExtensions) *framework.Status {
		return e.AddPod(ctx, in.State, in.Pod, other, n)
	}); s != nil {
		return false, s
	}
	if place.Admits(ctx, in.In, n).IsSuccess() {
		return true, nil
	}
	return false, remove(ctx, in, other, n)
}

func remove(ctx context.Context, in *In, other framework.PodInfo, n framework.NodeInfo) *framework.Status {
	if err := n.RemovePod(logr.Discard(), other.GetPod()); err != nil {
		return framework.AsStatus(err)
	}
	return extend(in, func(e framework.PreFilterExtensions) *framework.Status {
		return e.RemovePod(ctx, in.State, in.Pod, other, n)
	})
}

func extend(in *In, do func(framework.PreFilterExtensions) *framework.Status) *framework.Status {
	for _, pl := range in.Judges.PreFilter {
		if ext := pl.PreFilterExtensions(); ext != nil && !in.State.GetSkipFilterPlugins().Has(pl.Name()) {
			if s := do(ext); !s.IsSuccess() {
				return framework.AsStatus(fmt.Errorf("PreFilter extension of plugin %q: %w", pl.Name(), s.AsError()))
			}
		}
	}
	return nil
}
