package place

import (
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
)

// refused is the number of rows that are not in the running.
func (p *partition) refused() int { return len(p.class.no) - p.feasible }

// tally counts the rows of the groups that were refused.
func (p *partition) tally() []tallied { return p.tallyFrom(0) }

// tallyFrom counts them without the first rows.
func (p *partition) tallyFrom(from int) []tallied {
	first := make([]int, len(p.groups))
	for row := int32(0); from > 0; row++ {
		if at := p.ranks.Group(row); p.groups[at].said != nil {
			first[at]++
			from--
		}
	}
	var out []tallied
	p.live(func(at int32, g *group) {
		if n := p.ranks.Size(at) - first[at]; g.said != nil && n > 0 {
			out = append(out, tallied{g.said, n})
		}
	})
	return out
}

// refusals explains the first n, in the order of rows. Judges with sums may have to search the cluster for their numbers: they are asked when it is worth it.
func (p *partition) refusals(r *Ruling, n int) []journal.NodeRefusal {
	out := make([]journal.NodeRefusal, 0, min(n, p.refused()))
	asked := r.Winner == "" || r.Nodes() <= Many
	for row := int32(0); len(out) < cap(out); row++ {
		g := &p.groups[p.ranks.Group(row)]
		switch {
		case g.said == nil:
		case g.no != 0 && g.said == p.class.said[g.no]:
			out = append(out, p.class.explain(r, row, g.no))
		default:
			var judge Explainer
			for _, f := range p.class.Filter {
				if asked && f.Name() == g.said.Plugin() {
					judge, _ = f.(Explainer)
				}
			}
			out = append(out, r.explain(judge, refusal{p.class.memory.Table.Nodes[row], g.said}))
		}
	}
	return out
}

// scores gives the winner and the best of the others with every judge's opinion.
func (p *partition) scores(r *Ruling, n int) []journal.NodeScore {
	if n == 0 {
		return []journal.NodeScore{}
	}
	others := p.best
	if n-1 > len(others) {
		others = p.ranks.Top(nil, p.adds, n-1, int32(r.at))
	}
	rows := append(make([]int32, 0, n), int32(r.at))
	rows = append(rows, others[:min(n-1, len(others))]...)
	out := make([]journal.NodeScore, 0, len(rows))
	parts := make([]journal.PluginScore, len(rows)*len(p.scorers))
	for _, row := range rows {
		s := journal.NodeScore{Node: p.class.name(row), Total: int64(p.total(row)), Parts: parts[:len(p.scorers):len(p.scorers)]}
		parts = parts[len(p.scorers):]
		k := p.at[p.ranks.Group(row)]
		for i, judge := range p.scorers {
			raw, norm := int64(0), int64(0)
			if own := p.own[i]; own != nil && !own.scaled {
				raw = int64(own.at32(row))
				norm = raw
			} else {
				raw, norm = p.raw[i][k], p.norm[i][k].Score
			}
			s.Parts[i] = journal.PluginScore{Plugin: judge.Name(), Raw: raw, Norm: norm, Weight: judge.Weight, Weighted: norm * judge.Weight}
		}
		out = append(out, s)
	}
	return out
}

// groupStatuses reads refusals as PostFilter plugins want them.
type groupStatuses struct {
	*partition
	index  interface{ Index(string) (int, bool) }
	absent *framework.Status
}

// Get gives a node's status.
func (s *groupStatuses) Get(node string) *framework.Status {
	if row, ok := s.index.Index(node); ok {
		return s.Row(row)
	}
	return s.absent
}

// Row gives the status of the node at a place in the snapshot's list.
func (s *groupStatuses) Row(row int) *framework.Status {
	if said := s.groups[s.ranks.Group(int32(row))].said; said != nil {
		return said
	}
	return s.absent
}

// NodesForStatusCode lists the nodes with a status code.
func (s *groupStatuses) NodesForStatusCode(lister framework.NodeInfoLister, code framework.Code) ([]framework.NodeInfo, error) {
	return nodesWith(s, lister, code)
}
