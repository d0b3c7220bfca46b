package schedule

import (
	"cmp"
	"slices"

	"github.com/gantry-project/gantry/internal/journal"
)

// Bounds of a journal fact: beyond ManyNodes nodes only the first MaxRefusals refusals are written
// and the others counted (maxRefusalsScheduled when a node was chosen: then they are not what is
// asked for, and writing them out would cost more than the cycle), and only the MaxScores nodes'
// scores.
const (
	ManyNodes            = 100
	MaxRefusals          = 100
	maxRefusalsScheduled = 10
	MaxScores            = 10
	MaxNodesLeftOut      = 20 // nodes outside the sample
)

// Fact is the Result for the journal; the caller adds attempt and times.
func (r *Result) Fact() journal.Ruled {
	f := journal.Ruled{
		Profile: r.plugins.Profile, Nodes: r.Nodes(), Sample: journal.Sample{Visited: r.EvaluatedNodes,
			Left: r.countLeftOut(), LeftOut: r.LeftOut(MaxNodesLeftOut)}, Feasible: r.Feasible(),
		Winner: r.SuggestedHost, RunnerUp: r.RunnerUp, Ties: r.TopScoredNodes, Message: r.Message(),
	}
	if r.Status != nil && r.EvaluatedNodes == 0 {
		f.By = r.Status.Plugin()
	}
	full, best := r.countRefused(), r.Feasible()
	if r.Nodes() > ManyNodes {
		full, best = min(full, MaxRefusals), min(best, MaxScores)
		if f.Winner != "" {
			full = min(full, maxRefusalsScheduled)
		}
	}
	f.Refusals, f.Scores = r.Refusals(full), r.Scores(best)
	if full < r.countRefused() {
		f.Counted = r.countRefusals(full)
	}
	return f
}

// LeftOut names the first n nodes that were not looked at, as enough others fit before their turn
// came. Nodes that a PreFilter plugin ruled out are not among them.
func (r *Result) LeftOut(n int) []string {
	k := min(n, r.countLeftOut())
	if k == 0 {
		return nil
	}
	out := make([]string, k)
	for i := range out {
		out[i] = r.visitOrder[(r.visitStart+r.EvaluatedNodes+i)%len(r.visitOrder)].Node().Name
	}
	return out
}

// countLeftOut counts them.
func (r *Result) countLeftOut() int {
	if r.SuggestedHost == "" {
		return 0
	}
	return max(len(r.visitOrder)-r.EvaluatedNodes, 0)
}

// Refusals explains the first n refusals, in the order of the snapshot.
func (r *Result) Refusals(n int) []journal.NodeRefusal {
	if r.groups != nil {
		return r.groups.refusals(r, n)
	}
	explainers := map[string]Explainer{}
	for _, p := range r.plugins.Filter {
		_, local := p.(NodeLocal) // the others may have to search the cluster for their numbers
		if e, ok := p.(Explainer); ok && (local || r.SuggestedHost == "" || r.Nodes() <= ManyNodes) {
			explainers[p.Name()] = e
		}
	}
	out := make([]journal.NodeRefusal, 0, min(n, len(r.refusals)))
	for _, no := range r.refusals[:min(n, len(r.refusals))] {
		out = append(out, r.explainRefusal(explainers[no.status.Plugin()], no))
	}
	return out
}

// explainRefusal is a refusal as the journal has it: plugin, code and messages, and the numbers and
// the remedy where the plugin explains its refusals (e is not nil).
func (r *Result) explainRefusal(e Explainer, no refusal) journal.NodeRefusal {
	entry := journal.NodeRefusal{Node: no.node.Node().Name, Plugin: no.status.Plugin(), Code: no.status.Code().String(),
		Messages: no.status.Reasons()}
	if e != nil {
		why := e.Explain(r.ctx, r.State, r.Pod, no.node)
		entry.Reason, entry.Detail, entry.Fix, entry.Shortages = why.Code, why.Detail, why.Fix, why.Short
	}
	return entry
}

// countRefusals sums up the refusals from the given one on, by plugin and reasons, the most
// frequent first.
func (r *Result) countRefusals(from int) []journal.CountedRefusal {
	byText := map[string]int{}
	var out []journal.CountedRefusal
	for _, t := range r.countStatusesFrom(from) {
		key := t.status.Plugin() + "\x00" + t.status.Message()
		i, known := byText[key]
		if !known {
			i = len(out)
			byText[key] = i
			out = append(out, journal.CountedRefusal{Plugin: t.status.Plugin(), Code: t.status.Code().String(),
				Messages: t.status.Reasons()})
		}
		out[i].Nodes += t.nodes
	}
	slices.SortStableFunc(out, func(a, b journal.CountedRefusal) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Plugin, b.Plugin),
			slices.Compare(a.Messages, b.Messages))
	})
	return out
}

// countStatusesFrom counts equal statuses of the refusals from the given one on.
func (r *Result) countStatusesFrom(from int) []statusCount {
	if r.groups == nil {
		rest := *r
		rest.refusals = r.refusals[from:]
		return rest.countStatuses()
	}
	return r.groups.countStatusesFrom(from)
}

// Scores gives the n best nodes with every plugin's score, the winner first; nothing when there was
// nothing to compare.
func (r *Result) Scores(n int) []journal.NodeScore {
	if r.buffers == nil || r.Status != nil {
		if r.SuggestedHost == "" {
			return nil
		}
		return []journal.NodeScore{{Node: r.SuggestedHost}}
	}
	if r.groups != nil {
		return r.groups.scores(r, n)
	}
	order := r.topNodes(n)
	out := make([]journal.NodeScore, 0, len(order))
	for _, i := range order {
		s := journal.NodeScore{Node: r.feasible[i].Node().Name, Total: r.buffers.totals[i],
			Parts: make([]journal.PluginScore, len(r.scorers))}
		for p, scorer := range r.scorers {
			normalized := r.buffers.normalized[p][i].Score
			s.Parts[p] = journal.PluginScore{Plugin: scorer.Name(), Raw: r.buffers.raw[p][i], Norm: normalized,
				Weight: scorer.Weight, Weighted: normalized * scorer.Weight}
		}
		out = append(out, s)
	}
	return out
}

// topNodes gives the places of the n best nodes: the winner, then by total, then as listed. It
// selects without sorting all.
func (r *Result) topNodes(n int) []int {
	before := func(a, b int) int {
		switch {
		case a == r.chosen || b == r.chosen:
			return cmp.Compare(btoi(b == r.chosen), btoi(a == r.chosen))
		case r.buffers.totals[a] != r.buffers.totals[b]:
			return cmp.Compare(r.buffers.totals[b], r.buffers.totals[a])
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
