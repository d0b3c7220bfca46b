package place

import (
	"fmt"

	"k8s.io/kube-scheduler/framework"
)

// mix rules by the class where judges share and by asking the others about the nodes that are left. It always ends the ruling.
func (c *cycle) mix(class *class, loud []framework.Plugin) bool {
	var others []framework.FilterPlugin
	for _, f := range c.Judges.Filter {
		if seated(loud, framework.Plugin(f)) && !c.State.GetSkipFilterPlugins().Has(f.Name()) {
			others = append(others, f)
		}
	}
	if !c.mixFilter(class, others) || !c.mixPreScore(class, loud) || !c.mixScore(class) {
		return true
	}
	c.choose()
	return true
}

// before tells how many of the others are asked before a judge's place in the list of filters.
func before(all, others []framework.FilterPlugin, at int) int {
	n := 0
	for _, f := range all[:max(at, 0)] {
		if n < len(others) && f.Name() == others[n].Name() {
			n++
		}
	}
	return n
}

// mixer judges rows by the class and by the judges that do not share.
type mixer struct {
	*cycle
	class    *class
	others   []framework.FilterPlugin
	first    []int                    // by verdict of the class: how many of the others speak before it
	promised map[int]bool             // rows promised to other Pods: every judge is asked, in both ways
	all      []framework.FilterPlugin // for these
}

func (c *cycle) mixer(class *class, others []framework.FilterPlugin) *mixer {
	m := &mixer{cycle: c, class: class, others: others, first: make([]int, len(class.said))}
	m.first[0] = len(others)
	for i := 1; i < len(m.first); i++ {
		m.first[i] = before(c.Judges.Filter, others, class.by[i])
	}
	if c.Nominated == nil {
		return m
	}
	m.promised, m.all = map[int]bool{}, active(c.Judges.Filter, c.State.GetSkipFilterPlugins())
	for _, name := range c.Promised {
		if row, ok := c.World.Index(name); ok {
			m.promised[row] = true
		}
	}
	return m
}

func (m *mixer) verdict(row int) *framework.Status {
	node := m.Memory.Table.Nodes[row]
	if m.promised[row] {
		return m.judge(m.all, node)
	}
	no := m.class.no[row]
	if k := m.first[no]; k > 0 {
		if s := Filter(m.ctx, m.In, m.others[:k], node); s != nil {
			return s
		}
	}
	return m.class.said[no]
}

// mixFilter finds feasible nodes in the order of the sample; false ends the ruling.
func (c *cycle) mixFilter(class *class, others []framework.FilterPlugin) bool {
	defer c.Time("Filter")()
	r, nodes, m := c.ruling, c.Memory.Table.Nodes, c.mixer(class, others)
	n, start := len(nodes), 0
	enough := c.Sample.Enough(n)
	if enough < n {
		start = c.Sample.StartsAt % n
	}
	said := c.Boards.statuses(n)
	c.feasible, c.rows = c.Boards.feasible[:0], c.Memory.passed[:0]
	for from := 0; from < n && len(c.feasible) < enough; {
		to := n
		if enough < n {
			to = min(from+block, n)
		}
		ask := func(i int) { said[from+i] = m.verdict((start + from + i) % n) }
		if len(others) > 0 {
			c.Each(to-from, ask)
		} else {
			inOrder(to-from, ask)
		}
		for ; from < to && len(c.feasible) < enough; from++ {
			row := (start + from) % n
			if s := said[from]; s.IsSuccess() {
				c.feasible, c.rows = append(c.feasible, nodes[row]), append(c.rows, int32(row))
			} else if !r.refuse(nodes[row], s) {
				r.End = s
				return false
			}
		}
		r.Visited = from
	}
	c.Boards.feasible, c.Memory.passed = c.feasible, c.rows
	if len(c.feasible) == 0 {
		r.End = framework.NewStatus(framework.Unschedulable)
	}
	return len(c.feasible) > 0
}

// mixPreScore lets the others prepare; those that share have.
func (c *cycle) mixPreScore(class *class, loud []framework.Plugin) bool {
	if len(c.feasible) == 1 {
		return true
	}
	defer c.Time("PreScore")()
	skip := class.quieted(class.skipScore, loud).Clone()
	for _, p := range c.Judges.PreScore {
		if !seated(loud, framework.Plugin(p)) {
			continue
		}
		s := p.PreScore(c.ctx, c.State, c.Pod, c.feasible)
		if s.IsSkip() {
			skip.Insert(p.Name())
		} else if !s.IsSuccess() {
			c.ruling.End = framework.AsStatus(fmt.Errorf("running PreScore plugin %q: %w", p.Name(), s.AsError())).WithPlugin(p.Name())
			return false
		}
	}
	c.State.SetSkipScorePlugins(skip)
	return true
}

func (c *cycle) mixScore(class *class) bool {
	r, b := c.ruling, c.Boards
	r.feasible = c.feasible
	if len(c.feasible) == 1 {
		return true
	}
	defer c.Time("Score")()
	r.scorers, r.boards = activeScorers(c.Judges.Score, c.State.GetSkipScorePlugins()), b
	b.scores(len(r.scorers), c.feasible)
	asked := make([]Scorer, 0, len(r.scorers))
	places := make([]int, 0, len(r.scorers))
	for p, s := range r.scorers {
		o := class.scorer(s.Name())
		if o == nil {
			asked, places = append(asked, s), append(places, p)
			continue
		}
		for i, row := range c.rows {
			b.norm[p][i].Score = int64(o.at32(row))
		}
	}
	if len(asked) > 0 {
		c.askScores(asked, places)
	}
	if r.End = c.endOfScores(); r.End != nil {
		return false
	}
	return true
}

// scorer finds what the class knows of a judge's scores; nil when the judge does not share.
func (c *class) scorer(name string) *opinedScorer {
	for i := range c.scorers {
		if c.scorers[i].judge.Name() == name {
			return &c.scorers[i]
		}
	}
	return nil
}
