package schedule

import (
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
)

// countRefused is the number of rows that are not in the running.
func (p *nodeGroups) countRefused() int { return len(p.shape.refusalNumbers) - p.scored.feasible }

// countStatuses counts the rows of the groups that were refused.
func (p *nodeGroups) countStatuses() []statusCount { return p.countStatusesFrom(0) }

// countStatusesFrom counts them without the first rows.
func (p *nodeGroups) countStatusesFrom(from int) []statusCount {
	first := make([]int, len(p.groups))
	for row := int32(0); from > 0; row++ {
		if at := p.ranks.Group(row); p.groups[at].status != nil {
			first[at]++
			from--
		}
	}
	var out []statusCount
	p.eachGroup(func(at int32, g *nodeGroup) {
		if n := p.ranks.Size(at) - first[at]; g.status != nil && n > 0 {
			out = append(out, statusCount{g.status, n})
		}
	})
	return out
}

// refusals explains the first n, in the order of rows. PluginSet with sums may have to search the
// cluster for their numbers: they are asked when it is worth it.
func (p *nodeGroups) refusals(r *Result, n int) []journal.NodeRefusal {
	out := make([]journal.NodeRefusal, 0, min(n, p.countRefused()))
	called := r.SuggestedHost == "" || r.Nodes() <= ManyNodes
	for row := int32(0); len(out) < cap(out); row++ {
		g := &p.groups[p.ranks.Group(row)]
		switch {
		case g.status == nil:
		case g.refusalNumber != 0 && g.status == p.shape.statuses[g.refusalNumber]:
			out = append(out, p.shape.explainRefusal(r, row, g.refusalNumber))
		default:
			var plugin Explainer
			for _, f := range p.shape.set.Filter {
				if called && f.Name() == g.status.Plugin() {
					plugin, _ = f.(Explainer)
				}
			}
			out = append(out, r.explainRefusal(plugin, refusal{p.shape.cache.Table.Nodes[row], g.status}))
		}
	}
	return out
}

// scores gives the winner and the best of the others with every plugin's score.
func (p *nodeGroups) scores(r *Result, n int) []journal.NodeScore {
	if n == 0 {
		return []journal.NodeScore{}
	}
	others := p.scored.topRows
	if n-1 > len(others) {
		others = p.ranks.Top(nil, p.scored.groupTotals, n-1, int32(r.chosen))
	}
	rows := append(make([]int32, 0, n), int32(r.chosen))
	rows = append(rows, others[:min(n-1, len(others))]...)
	out := make([]journal.NodeScore, 0, len(rows))
	parts := make([]journal.PluginScore, len(rows)*len(p.scored.scorers))
	for _, row := range rows {
		s := journal.NodeScore{Node: p.shape.nodeName(row), Total: int64(p.totalScore(row)),
			Parts: parts[:len(p.scored.scorers):len(p.scored.scorers)]}
		parts = parts[len(p.scored.scorers):]
		k := p.scored.scorerIndex[p.ranks.Group(row)]
		for i, plugin := range p.scored.scorers {
			raw, normalized := int64(0), int64(0)
			if own := p.scored.shapeScorers[i]; own != nil && !own.scaled {
				raw = int64(own.rawScore(row))
				normalized = raw
			} else {
				raw, normalized = p.scored.raw[i][k], p.scored.normalized[i][k].Score
			}
			s.Parts[i] = journal.PluginScore{Plugin: plugin.Name(), Raw: raw, Norm: normalized, Weight: plugin.Weight,
				Weighted: normalized * plugin.Weight}
		}
		out = append(out, s)
	}
	return out
}

// groupStatuses reads refusals as PostFilter plugins want them.
type groupStatuses struct {
	*nodeGroups
	index  interface{ Index(string) (int, bool) }
	absent *framework.Status
}

// Get returns the status of the node of that name, of its group; the absent nodes' status where the
// snapshot has none of that name or its group none. Never nil.
func (s *groupStatuses) Get(node string) *framework.Status {
	if row, ok := s.index.Index(node); ok {
		return s.Row(row)
	}
	return s.absent
}

// Row is Get by the node's index in the snapshot's list, which must be one of it.
func (s *groupStatuses) Row(row int) *framework.Status {
	if status := s.groups[s.ranks.Group(int32(row))].status; status != nil {
		return status
	}
	return s.absent
}

// NodesForStatusCode implements framework.NodeToStatusReader for preemption: the nodes of lister
// whose status has the code, in lister's order. It fails only where lister does.
func (s *groupStatuses) NodesForStatusCode(lister framework.NodeInfoLister,
	code framework.Code) ([]framework.NodeInfo, error) {
	return nodesForStatusCode(s, lister, code)
}
