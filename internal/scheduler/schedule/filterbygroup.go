package schedule

import (
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// groupScores is what a ruling by groups leaves: verdicts are with the groups, and these are the
// points.
type groupScores struct {
	feasible     int
	asked        []int32               // the groups in the running
	rows         []int32               // one row of each
	times        []int32               // for how many it stands
	groupTotals  []int32               // by group: what all of a group's rows get; Out for those not in the running
	scorers      []WeightedScorePlugin // of the ruling
	shapeScorers []*compiledScorer     // by scorer: the class's; nil: a judge's with sums
	raw          [][]int64             // by scorer that says the same of a whole group, by place in asked
	normalized   []framework.NodeScoreList
	scorerIndex  []int32 // by group: place in asked
	statuses     []*framework.Status
	topRows      []int32 // rows after the winner, the best first
}

// scheduleByGroup rules by asking every judge about one row of each group; false when it cannot,
// and nothing is decided.
func (c *cycle) scheduleByGroup(by nodeGroupsKey, activePlugins []*nodePlugin) bool {
	for i, o := range activePlugins {
		k := c.aggregateOf(o.Name())
		if k == nil || i == len(by.aggregates) {
			return false
		}
		by.aggregates[i] = k
	}
	p := c.Cache.nodeGroupsOf(c, by)
	if p == nil {
		return false
	}
	c.filterByGroup(p)
	r := c.result
	r.groups, r.EvaluatedNodes = p, len(by.shape.refusalNumbers)
	if p.feasible == 0 {
		r.Status = framework.NewStatus(framework.Unschedulable)
		return true
	}
	if p.feasible > 1 && len(activePlugins) > 0 {
		c.preScoreByGroup(p, activePlugins)
	}
	if !c.scoreByGroup(p) {
		r.groups, r.EvaluatedNodes = nil, 0
		r.UnschedulablePlugins, r.PendingPlugins = nil, nil
		return false
	}
	c.selectHostByGroup(p)
	return true
}

// filterByGroup finds the groups in the running and what the others are refused for, by the judge
// that is first in the profile's list.
func (c *cycle) filterByGroup(p *nodeGroups) {
	defer c.TimePoint("Filter")()
	p.asked, p.rows = p.asked[:0], p.rows[:0]
	p.eachGroup(func(at int32, g *nodeGroup) { p.asked, p.rows = append(p.asked, at), append(p.rows, g.row) })
	p.statuses = resized(p.statuses, len(p.rows))
	clear(p.statuses)
	if len(p.aggregates) > 0 {
		c.filterGroupsByAggregates(p)
	}
	p.groupTotals, p.times, p.scorerIndex = resized(p.groupTotals, p.ranks.Groups()), p.times[:0],
		resized(p.scorerIndex, p.ranks.Groups())
	for i := range p.groupTotals {
		p.groupTotals[i] = columns.NotFeasible
	}
	in := 0
	p.feasible = 0
	for i, at := range p.asked {
		g := &p.groups[at]
		if g.status = p.statuses[i]; g.status == nil {
			g.status = p.shape.statuses[g.refusalNumber]
		}
		if g.status != nil {
			c.result.rejectPod(g.status)
			continue
		}
		n := p.ranks.Size(at)
		p.feasible += n
		p.asked[in], p.rows[in], p.scorerIndex[at] = at, p.rows[i], int32(in)
		p.times = append(p.times, int32(n))
		in++
	}
	p.asked, p.rows = p.asked[:in], p.rows[:in]
}

// filterGroupsByAggregates asks judges with sums about each group unless one before them refused
// it.
func (c *cycle) filterGroupsByAggregates(p *nodeGroups) {
	for i, f := range c.Plugins.Filter {
		if o := c.evaluatorOf(f.Name()); o != nil && o.Filter != nil && !c.State.GetSkipFilterPlugins().Has(f.Name()) {
			for k, at := range p.asked {
				if no := p.groups[at].refusalNumber; no != 0 && p.statuses[k] == nil && p.shape.refusedBy[no] < i {
					p.statuses[k] = p.shape.statuses[no]
				}
			}
			done := c.PluginTimer.start(f, "Filter")
			o.Filter(p.rows, p.statuses)
			done(nil)
		}
	}
}

// preScoreByGroup lets judges with sums prepare; those that share have.
func (c *cycle) preScoreByGroup(p *nodeGroups, activePlugins []*nodePlugin) {
	defer c.TimePoint("PreScore")()
	h := skipKey{active: pluginBits(activePlugins), scoring: true}
	for _, o := range activePlugins {
		if o.preScore == nil {
			continue
		}
		done := c.PluginTimer.start(o, "PreScore")
		s := c.aggregateOf(o.Name()).PreScore(c.State, c.Pod, Feasible{Rows: p.rows, times: p.times})
		if done(s); s.IsSkip() {
			h.skipped |= o.bit
		}
	}
	c.State.SetSkipScorePlugins(p.shape.skipSet(h))
}

// scoreByGroup finds what every group's rows get; false when a judge must be asked in another way.
func (c *cycle) scoreByGroup(p *nodeGroups) bool {
	if p.feasible == 1 {
		p.scorers = nil
		return true
	}
	defer c.TimePoint("Score")()
	p.scorers = scorersNotSkipped(c.Plugins.Score, c.State.GetSkipScorePlugins())
	n := len(p.scorers)
	p.shapeScorers, p.raw, p.normalized = resized(p.shapeScorers, n), resized(p.raw, n), resized(p.normalized, n)
	start := int32(0)
	if n == 0 {
		start = 1
	}
	for _, at := range p.asked {
		p.groupTotals[at] = start
	}
	for i, s := range p.scorers {
		p.shapeScorers[i] = p.shape.scorerOf(s.Name())
		switch {
		case p.shapeScorers[i] == nil:
			if !c.runScorePluginByGroup(p, i) {
				return false
			}
		case p.shapeScorers[i].scaled:
			p.normalizeScores(i)
		default:
			continue // points of each row
		}
		for k, at := range p.asked {
			p.groupTotals[at] += int32(p.normalized[i][k].Score * s.Weight)
		}
	}
	return true
}

func (p *nodeGroups) scoreBuffers(i int) (raw []int64, normalized framework.NodeScoreList) {
	p.raw[i], p.normalized[i] = resized(p.raw[i], len(p.rows)), resized(p.normalized[i], len(p.rows))
	clear(p.raw[i])
	return p.raw[i], p.normalized[i]
}

// normalizeScores normalises raw scores of the class by the largest among the rows in the running.
func (p *nodeGroups) normalizeScores(i int) {
	s := p.shapeScorers[i]
	raw, normalized := p.scoreBuffers(i)
	top := int64(0)
	for k, row := range p.rows {
		raw[k] = int64(s.rawScore(row))
		top = max(top, raw[k])
	}
	for k := range raw {
		normalized[k].Score = s.normalize(raw[k], top)
	}
}

// runScorePluginByGroup asks a judge with sums to score one row of each group.
func (c *cycle) runScorePluginByGroup(p *nodeGroups, i int) bool {
	s := p.scorers[i]
	o := c.evaluatorOf(s.Name())
	if o == nil || o.Score == nil {
		return false
	}
	raw, normalized := p.scoreBuffers(i)
	done := c.PluginTimer.start(s.ScorePlugin, "Score")
	o.Score(p.rows, raw)
	done(nil)
	for k, row := range p.rows {
		normalized[k] = framework.NodeScore{Name: p.shape.cache.Table.NodeObjects[row].Name, Score: raw[k]}
	}
	if ext := s.ScoreExtensions(); ext != nil {
		done := c.PluginTimer.start(s.ScorePlugin, "ScoreExtensionNormalize")
		status := ext.NormalizeScore(c.ctx, c.State, c.Pod, normalized)
		if done(status); !status.IsSuccess() {
			return false
		}
	}
	for k := range normalized {
		if normalized[k].Score < framework.MinScore || normalized[k].Score > framework.MaxScore {
			return false
		}
	}
	return true
}

// selectHostByGroup takes the best node, ties by Pick, and names the runner-up.
func (c *cycle) selectHostByGroup(p *nodeGroups) {
	defer c.TimePoint("Score")()
	r := c.result
	if p.feasible == 1 {
		r.chosen, r.SuggestedHost, r.TopScoredNodes = int(p.rows[0]), p.shape.nodeName(p.rows[0]), 1
		return
	}
	best, ties := p.ranks.Best(p.groupTotals)
	pick := 0
	if ties > 1 && c.PickTie != nil {
		pick = c.PickTie(ties)
	}
	row := p.ranks.Nth(p.groupTotals, best, pick)
	p.topRows = p.ranks.Top(p.topRows[:0], p.groupTotals, MaxScores-1, row)
	r.chosen, r.TopScoredNodes, r.SuggestedHost, r.buffers = int(row), ties, p.shape.nodeName(row), c.Buffers
	r.RunnerUp, r.Lead = p.shape.nodeName(p.topRows[0]), int64(best-p.totalScore(p.topRows[0]))
}

func (p *nodeGroups) totalScore(row int32) int32 {
	return p.ranks.Points(row) + p.groupTotals[p.ranks.Group(row)]
}
