package place

import (
	"fmt"
	"slices"

	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// mix rules by the class where judges share and by asking the others about the nodes that are left. It always ends the ruling.
func (c *cycle) mix(class *class, loud []*other) bool {
	c.Memory.counts.Swept++
	var others []framework.FilterPlugin
	for _, f := range c.Judges.Filter {
		if find(loud, f.Name()) != nil && !c.State.GetSkipFilterPlugins().Has(f.Name()) {
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
	promised bool                     // rows may be promised to other Pods: every judge is asked about these, in both ways
	all      []framework.FilterPlugin // for these
	swept    [][]*framework.Status    // by place in others: verdicts by row; nil: the judge is asked
}

func (c *cycle) mixer(class *class, others []framework.FilterPlugin) *mixer {
	m := &mixer{cycle: c, class: class, others: others, first: make([]int, len(class.said))}
	m.first[0] = len(others)
	for i := 1; i < len(m.first); i++ {
		m.first[i] = before(c.Judges.Filter, others, class.by[i])
	}
	m.sweep()
	if !c.promised() {
		return m
	}
	m.promised, m.all = true, active(c.Judges.Filter, c.State.GetSkipFilterPlugins())
	return m
}

func (m *mixer) verdict(row int) *framework.Status {
	node := m.Memory.Table.Nodes[row]
	if m.promised && len(m.Memory.who.on[row]) > 0 {
		return m.besides(row)
	}
	no := m.class.no[row]
	for k := range m.first[no] {
		if m.swept[k] != nil {
			if s := m.swept[k][row]; s != nil {
				return s
			}
		} else if s := Filter(m.ctx, m.In, m.others[k:k+1], node); s != nil {
			return s
		}
	}
	return m.class.said[no]
}

// sweep lets judges with sums judge all rows at once.
func (m *mixer) sweep() {
	m.swept = make([][]*framework.Status, len(m.others))
	for k, f := range m.others {
		o := m.opinion(f.Name())
		if o == nil {
			continue
		}
		rows := m.Memory.everyRow()
		m.swept[k] = make([]*framework.Status, len(rows))
		if o.Refuse != nil {
			answered := m.Clock.of(f, "Filter")
			o.Refuse(rows, m.swept[k])
			answered(nil)
		}
	}
}

// everyRow lists all rows.
func (m *Memory) everyRow() []int32 {
	for len(m.every) < m.Table.Len() {
		m.every = append(m.every, int32(len(m.every)))
	}
	return m.every[:m.Table.Len()]
}

// asks tells whether a judge is asked node by node, which is worth doing in parallel.
func (m *mixer) asks() bool {
	return slices.ContainsFunc(m.swept, func(s []*framework.Status) bool { return s == nil })
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
	r.sampled(nodes, start)
	said := c.Boards.statuses(n)
	c.feasible, c.rows = c.Boards.feasible[:0], c.Memory.passed[:0]
	for from := 0; from < n && len(c.feasible) < enough; {
		to := n
		if enough < n {
			to = min(from+block, n)
		}
		ask := func(i int) { said[from+i] = m.verdict((start + from + i) % n) }
		if m.asks() {
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
func (c *cycle) mixPreScore(class *class, loud []*other) bool {
	if len(c.feasible) == 1 {
		return true
	}
	defer c.Time("PreScore")()
	h := hush{loud: bits(loud), scoring: true}
	for _, p := range c.Judges.PreScore {
		o := find(loud, p.Name())
		if o == nil {
			continue
		}
		s := c.askPreScore(p)
		if s.IsSkip() {
			h.skipped |= o.bit
		} else if !s.IsSuccess() {
			c.ruling.End = framework.AsStatus(fmt.Errorf("running PreScore plugin %q: %w", p.Name(), s.AsError())).WithPlugin(p.Name())
			return false
		}
	}
	c.State.SetSkipScorePlugins(class.quieted(h))
	return true
}

func (c *cycle) askPreScore(p framework.PreScorePlugin) (s *framework.Status) {
	answered := c.Clock.of(p, "PreScore")
	defer func() { answered(s) }()
	if k := c.keeps(p.Name()); k != nil {
		return k.PreScore(c.State, c.Pod, Feasible{Rows: c.rows})
	}
	return p.PreScore(c.ctx, c.State, c.Pod, c.feasible)
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
		if swept := c.opinion(s.Name()); swept != nil && swept.Score != nil {
			answered := c.Clock.of(s.ScorePlugin, "Score")
			raw := c.Memory.sweepScores(c.rows, swept)
			answered(nil)
			for i := range raw {
				b.norm[p][i].Score = raw[i]
			}
			continue
		}
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

func (m *Memory) sweepScores(rows []int32, o *columns.Opinion) []int64 {
	m.scores = resized(m.scores, len(rows))
	clear(m.scores)
	o.Score(rows, m.scores)
	return m.scores
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
