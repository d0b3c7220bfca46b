package place

import (
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// record is what a ruling by groups leaves: verdicts are with the groups, and these are the points.
type record struct {
	feasible int
	asked    []int32         // the groups in the running
	rows     []int32         // one row of each
	times    []int32         // for how many it stands
	adds     []int32         // by group: what all of a group's rows get; Out for those not in the running
	scorers  []Scorer        // of the ruling
	own      []*opinedScorer // by scorer: the class's; nil: a judge's with sums
	raw      [][]int64       // by scorer that says the same of a whole group, by place in asked
	norm     []framework.NodeScoreList
	at       []int32 // by group: place in asked
	said     []*framework.Status
	best     []int32 // rows after the winner, the best first
}

// part rules by asking every judge about one row of each group; false when it cannot, and nothing is decided.
func (c *cycle) part(by parts, loud []*other) bool {
	for i, o := range loud {
		k := c.keeps(o.Name())
		if k == nil || i == len(by.sums) {
			return false
		}
		by.sums[i] = k
	}
	p := c.Memory.partitionOf(c, by)
	if p == nil {
		return false
	}
	c.partFilter(p)
	r := c.ruling
	r.groups, r.Visited = p, len(by.class.no)
	if p.feasible == 0 {
		r.End = framework.NewStatus(framework.Unschedulable)
		return true
	}
	if p.feasible > 1 && len(loud) > 0 {
		c.partPreScore(p, loud)
	}
	if !c.partScore(p) {
		r.groups, r.Visited = nil, 0
		r.Rejectors, r.Pending = nil, nil
		return false
	}
	c.partChoose(p)
	return true
}

// partFilter finds the groups in the running and what the others are refused for, by the judge that is first in the profile's list.
func (c *cycle) partFilter(p *partition) {
	defer c.Time("Filter")()
	p.asked, p.rows = p.asked[:0], p.rows[:0]
	p.live(func(at int32, g *group) { p.asked, p.rows = append(p.asked, at), append(p.rows, g.row) })
	p.said = resized(p.said, len(p.rows))
	clear(p.said)
	if len(p.sums) > 0 {
		c.hear(p)
	}
	p.adds, p.times, p.at = resized(p.adds, p.ranks.Groups()), p.times[:0], resized(p.at, p.ranks.Groups())
	for i := range p.adds {
		p.adds[i] = columns.Out
	}
	in := 0
	p.feasible = 0
	for i, at := range p.asked {
		g := &p.groups[at]
		if g.said = p.said[i]; g.said == nil {
			g.said = p.class.said[g.no]
		}
		if g.said != nil {
			c.ruling.reject(g.said)
			continue
		}
		n := p.ranks.Size(at)
		p.feasible += n
		p.asked[in], p.rows[in], p.at[at] = at, p.rows[i], int32(in)
		p.times = append(p.times, int32(n))
		in++
	}
	p.asked, p.rows = p.asked[:in], p.rows[:in]
}

// hear asks judges with sums about each group unless one before them refused it.
func (c *cycle) hear(p *partition) {
	for i, f := range c.Judges.Filter {
		if o := c.opinion(f.Name()); o != nil && o.Refuse != nil && !c.State.GetSkipFilterPlugins().Has(f.Name()) {
			for k, at := range p.asked {
				if no := p.groups[at].no; no != 0 && p.said[k] == nil && p.class.by[no] < i {
					p.said[k] = p.class.said[no]
				}
			}
			answered := c.Clock.of(f, "Filter")
			o.Refuse(p.rows, p.said)
			answered(nil)
		}
	}
}

// partPreScore lets judges with sums prepare; those that share have.
func (c *cycle) partPreScore(p *partition, loud []*other) {
	defer c.Time("PreScore")()
	h := hush{loud: bits(loud), scoring: true}
	for _, o := range loud {
		if o.preScores == nil {
			continue
		}
		answered := c.Clock.of(o, "PreScore")
		s := c.keeps(o.Name()).PreScore(c.State, c.Pod, Feasible{Rows: p.rows, times: p.times})
		if answered(s); s.IsSkip() {
			h.skipped |= o.bit
		}
	}
	c.State.SetSkipScorePlugins(p.class.quieted(h))
}

// partScore finds what every group's rows get; false when a judge must be asked in another way.
func (c *cycle) partScore(p *partition) bool {
	if p.feasible == 1 {
		p.scorers = nil
		return true
	}
	defer c.Time("Score")()
	p.scorers = activeScorers(c.Judges.Score, c.State.GetSkipScorePlugins())
	n := len(p.scorers)
	p.own, p.raw, p.norm = resized(p.own, n), resized(p.raw, n), resized(p.norm, n)
	start := int32(0)
	if n == 0 {
		start = 1
	}
	for _, at := range p.asked {
		p.adds[at] = start
	}
	for i, s := range p.scorers {
		p.own[i] = p.class.scorer(s.Name())
		switch {
		case p.own[i] == nil:
			if !c.partAsk(p, i) {
				return false
			}
		case p.own[i].scaled:
			p.scale(i)
		default:
			continue // points of each row
		}
		for k, at := range p.asked {
			p.adds[at] += int32(p.norm[i][k].Score * s.Weight)
		}
	}
	return true
}

func (p *partition) room(i int) (raw []int64, norm framework.NodeScoreList) {
	p.raw[i], p.norm[i] = resized(p.raw[i], len(p.rows)), resized(p.norm[i], len(p.rows))
	clear(p.raw[i])
	return p.raw[i], p.norm[i]
}

// scale normalises raw scores of the class by the largest among the rows in the running.
func (p *partition) scale(i int) {
	s := p.own[i]
	raw, norm := p.room(i)
	top := int64(0)
	for k, row := range p.rows {
		raw[k] = int64(s.at32(row))
		top = max(top, raw[k])
	}
	for k := range raw {
		norm[k].Score = s.scale(raw[k], top)
	}
}

// partAsk asks a judge with sums to score one row of each group.
func (c *cycle) partAsk(p *partition, i int) bool {
	s := p.scorers[i]
	o := c.opinion(s.Name())
	if o == nil || o.Score == nil {
		return false
	}
	raw, norm := p.room(i)
	answered := c.Clock.of(s.ScorePlugin, "Score")
	o.Score(p.rows, raw)
	answered(nil)
	for k, row := range p.rows {
		norm[k] = framework.NodeScore{Name: p.class.memory.Table.Objects[row].Name, Score: raw[k]}
	}
	if ext := s.ScoreExtensions(); ext != nil {
		answered := c.Clock.of(s.ScorePlugin, "ScoreExtensionNormalize")
		status := ext.NormalizeScore(c.ctx, c.State, c.Pod, norm)
		if answered(status); !status.IsSuccess() {
			return false
		}
	}
	for k := range norm {
		if norm[k].Score < framework.MinScore || norm[k].Score > framework.MaxScore {
			return false
		}
	}
	return true
}

// partChoose takes the best node, ties by Pick, and names the runner-up.
func (c *cycle) partChoose(p *partition) {
	defer c.Time("Score")()
	r := c.ruling
	if p.feasible == 1 {
		r.at, r.Winner, r.Ties = int(p.rows[0]), p.class.name(p.rows[0]), 1
		return
	}
	best, ties := p.ranks.Best(p.adds)
	pick := 0
	if ties > 1 && c.Pick != nil {
		pick = c.Pick(ties)
	}
	row := p.ranks.Nth(p.adds, best, pick)
	p.best = p.ranks.Top(p.best[:0], p.adds, Best-1, row)
	r.at, r.Ties, r.Winner, r.boards = int(row), ties, p.class.name(row), c.Boards
	r.RunnerUp, r.Lead = p.class.name(p.best[0]), int64(best-p.total(p.best[0]))
}

func (p *partition) total(row int32) int32 { return p.ranks.Points(row) + p.adds[p.ranks.Group(row)] }
