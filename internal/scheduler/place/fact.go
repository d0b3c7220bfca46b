package place

import (
	"cmp"
	"slices"

	"github.com/gantry-project/gantry/internal/journal"
)

// Bounds of a journal fact: beyond Many nodes only the first Full refusals are written and the others counted (FullWon when a node was chosen: then they are not
// what is asked for, and writing them out would cost more than the ruling), and only the Best nodes' scores.
const (
	Many    = 100
	Full    = 100
	FullWon = 10
	Best    = 10
	Named   = 20 // nodes outside the sample
)

// Fact is the ruling for the journal; the caller adds attempt and times.
func (r *Ruling) Fact() journal.Ruled {
	f := journal.Ruled{
		Profile: r.judges.Profile, Nodes: r.Nodes(), Sample: journal.Sample{Visited: r.Visited, Left: r.left(), LeftOut: r.LeftOut(Named)}, Feasible: r.Feasible(),
		Winner: r.Winner, RunnerUp: r.RunnerUp, Ties: r.Ties, Message: r.Message(),
	}
	if r.End != nil && r.Visited == 0 {
		f.By = r.End.Plugin()
	}
	full, best := r.refused(), r.Feasible()
	if r.Nodes() > Many {
		full, best = min(full, Full), min(best, Best)
		if f.Winner != "" {
			full = min(full, FullWon)
		}
	}
	f.Refusals, f.Scores = r.Refusals(full), r.Scores(best)
	if full < r.refused() {
		f.Counted = r.counted(full)
	}
	return f
}

// LeftOut names the first n nodes that were not looked at, as enough others fit before their turn came. Nodes that a PreFilter plugin ruled out are not among them.
func (r *Ruling) LeftOut(n int) []string {
	k := min(n, r.left())
	if k == 0 {
		return nil
	}
	out := make([]string, k)
	for i := range out {
		out[i] = r.ring[(r.from+r.Visited+i)%len(r.ring)].Node().Name
	}
	return out
}

// left counts them.
func (r *Ruling) left() int {
	if r.Winner == "" {
		return 0
	}
	return max(len(r.ring)-r.Visited, 0)
}

// Refusals explains the first n refusals, in the order of the snapshot.
func (r *Ruling) Refusals(n int) []journal.NodeRefusal {
	if r.groups != nil {
		return r.groups.refusals(r, n)
	}
	explainers := map[string]Explainer{}
	for _, p := range r.judges.Filter {
		_, local := p.(Local) // the others may have to search the cluster for their numbers
		if e, ok := p.(Explainer); ok && (local || r.Winner == "" || r.Nodes() <= Many) {
			explainers[p.Name()] = e
		}
	}
	out := make([]journal.NodeRefusal, 0, min(n, len(r.no)))
	for _, no := range r.no[:min(n, len(r.no))] {
		out = append(out, r.explain(explainers[no.status.Plugin()], no))
	}
	return out
}

func (r *Ruling) explain(e Explainer, no refusal) journal.NodeRefusal {
	entry := journal.NodeRefusal{Node: no.node.Node().Name, Plugin: no.status.Plugin(), Code: no.status.Code().String(), Messages: no.status.Reasons()}
	if e != nil {
		why := e.Explain(r.ctx, r.State, r.Pod, no.node)
		entry.Reason, entry.Detail, entry.Fix, entry.Short = string(why.Code), why.Detail, why.Fix, why.Short
	}
	return entry
}

// counted sums up the refusals from the given one on, by plugin and reasons, the most frequent first.
func (r *Ruling) counted(from int) []journal.CountedRefusal {
	byText := map[string]int{}
	var out []journal.CountedRefusal
	for _, t := range r.tallyFrom(from) {
		key := t.status.Plugin() + "\x00" + t.status.Message()
		i, known := byText[key]
		if !known {
			i = len(out)
			byText[key] = i
			out = append(out, journal.CountedRefusal{Plugin: t.status.Plugin(), Code: t.status.Code().String(), Messages: t.status.Reasons()})
		}
		out[i].Nodes += t.nodes
	}
	slices.SortStableFunc(out, func(a, b journal.CountedRefusal) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Plugin, b.Plugin), slices.Compare(a.Messages, b.Messages))
	})
	return out
}

// tallyFrom counts equal statuses of the refusals from the given one on.
func (r *Ruling) tallyFrom(from int) []tallied {
	if r.groups == nil {
		rest := *r
		rest.no = r.no[from:]
		return rest.tally()
	}
	return r.groups.tallyFrom(from)
}

// Scores gives the n best nodes with every plugin's opinion, the winner first; nothing when there was nothing to compare.
func (r *Ruling) Scores(n int) []journal.NodeScore {
	if r.boards == nil || r.End != nil {
		if r.Winner == "" {
			return nil
		}
		return []journal.NodeScore{{Node: r.Winner}}
	}
	if r.groups != nil {
		return r.groups.scores(r, n)
	}
	order := r.bestFirst(n)
	out := make([]journal.NodeScore, 0, len(order))
	for _, i := range order {
		s := journal.NodeScore{Node: r.feasible[i].Node().Name, Total: r.boards.totals[i], Parts: make([]journal.PluginScore, len(r.scorers))}
		for p, scorer := range r.scorers {
			norm := r.boards.norm[p][i].Score
			s.Parts[p] = journal.PluginScore{Plugin: scorer.Name(), Raw: r.boards.raw[p][i], Norm: norm, Weight: scorer.Weight, Weighted: norm * scorer.Weight}
		}
		out = append(out, s)
	}
	return out
}

// bestFirst gives the places of the n best nodes: the winner, then by total, then as listed. It selects without sorting all.
func (r *Ruling) bestFirst(n int) []int {
	before := func(a, b int) int {
		switch {
		case a == r.at || b == r.at:
			return cmp.Compare(btoi(b == r.at), btoi(a == r.at))
		case r.boards.totals[a] != r.boards.totals[b]:
			return cmp.Compare(r.boards.totals[b], r.boards.totals[a])
		}
		return cmp.Compare(a, b)
	}
	out := make([]int, 0, n+1)
	for i := range r.feasible {
		if len(out) == n && before(i, out[n-1]) > 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(out, i, before)
		if out = slices.Insert(out, at, i); len(out) > n {
			out = out[:n]
		}
	}
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
