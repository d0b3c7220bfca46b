package schedule

import (
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// groupScores are the scores that one scheduling cycle gives to groups; statuses are with the
// groups. The next cycle with the same groups reuses it.
type groupScores struct {
	feasible     int
	asked        []int32               // the groups in the running
	rows         []int32               // one row of each
	times        []int32               // for how many it stands
	groupTotals  []int32               // by group: what all of a group's rows get; Out for those not in the running
	scorers      []WeightedScorePlugin // of the cycle
	shapeScorers []*compiledScorer     // by scorer: the podShape's; nil: an aggregating plugin's
	raw          [][]int64             // by scorer that says the same of a whole group, by place in asked
	normalized   []framework.NodeScoreList
	scorerIndex  []int32 // by group: place in asked
	statuses     []*framework.Status
	topRows      []int32 // rows after the winner, the best first
}

// scheduleByGroup calls every plugin for one row of each group; false when it cannot, and nothing
// is decided.
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
	r.groups, r.groupScores, r.EvaluatedNodes = p, p.scored, len(by.shape.refusalNumbers)
	if p.scored.feasible == 0 {
		r.Status = framework.NewStatus(framework.Unschedulable)
		return true
	}
	if p.scored.feasible > 1 && len(activePlugins) > 0 {
		c.preScoreByGroup(p, activePlugins)
	}
	if !c.scoreByGroup(p) {
		r.groups, r.groupScores, r.EvaluatedNodes = nil, nil, 0
		r.UnschedulablePlugins, r.PendingPlugins = nil, nil
		return false
	}
	c.selectHostByGroup(p)
	return true
}

// filterByGroup finds the groups in the running and what the others are refused for, by the plugin
// that is first in the profile's list.
func (c *cycle) filterByGroup(p *nodeGroups) {
	defer c.TimePoint("Filter")()
	p.scored.asked, p.scored.rows = p.scored.asked[:0], p.scored.rows[:0]
	p.eachGroup(func(at int32, g *nodeGroup) {
		p.scored.asked, p.scored.rows = append(p.scored.asked, at), append(p.scored.rows, g.row)
	})
	p.scored.statuses = resized(p.scored.statuses, len(p.scored.rows))
	clear(p.scored.statuses)
	if len(p.aggregates) > 0 {
		c.filterGroupsByAggregates(p)
	}
	p.scored.groupTotals, p.scored.times, p.scored.scorerIndex = resized(p.scored.groupTotals, p.ranks.Groups()),
		p.scored.times[:0],
		resized(p.scored.scorerIndex, p.ranks.Groups())
	for i := range p.scored.groupTotals {
		p.scored.groupTotals[i] = columns.NotFeasible
	}
	in := 0
	p.scored.feasible = 0
	for i, at := range p.scored.asked {
		g := &p.groups[at]
		if g.status = p.scored.statuses[i]; g.status == nil {
			g.status = p.shape.statuses[g.refusalNumber]
		}
		if g.status != nil {
			c.result.rejectPod(g.status)
			continue
		}
		n := p.ranks.Size(at)
		p.scored.feasible += n
		p.scored.asked[in], p.scored.rows[in], p.scored.scorerIndex[at] = at, p.scored.rows[i], int32(in)
		p.scored.times = append(p.scored.times, int32(n))
		in++
	}
	p.scored.asked, p.scored.rows = p.scored.asked[:in], p.scored.rows[:in]
}

// filterGroupsByAggregates asks aggregating plugins about each group unless one before them refused
// it.
func (c *cycle) filterGroupsByAggregates(p *nodeGroups) {
	for i, f := range c.Plugins.Filter {
		if o := c.evaluatorOf(f.Name()); o != nil && o.Filter != nil && !c.State.GetSkipFilterPlugins().Has(f.Name()) {
			for k, at := range p.scored.asked {
				if no := p.groups[at].refusalNumber; no != 0 && p.scored.statuses[k] == nil &&
					p.shape.refusedBy[no] < i {
					p.scored.statuses[k] = p.shape.statuses[no]
				}
			}
			done := startTimer(c.PluginTimer, f, "Filter")
			o.Filter(p.scored.rows, p.scored.statuses)
			done(nil)
		}
	}
}

// preScoreByGroup lets aggregating plugins prepare; those that share have.
func (c *cycle) preScoreByGroup(p *nodeGroups, activePlugins []*nodePlugin) {
	defer c.TimePoint("PreScore")()
	h := skipKey{active: pluginBits(activePlugins), scoring: true}
	for _, o := range activePlugins {
		if o.preScore == nil {
			continue
		}
		done := startTimer(c.PluginTimer, o, "PreScore")
		s := c.aggregateOf(o.Name()).PreScore(c.State, c.Pod, Feasible{Rows: p.scored.rows, times: p.scored.times})
		if done(s); s.IsSkip() {
			h.skipped |= o.bit
		}
	}
	c.State.SetSkipScorePlugins(p.shape.skipSet(h))
}

// scoreByGroup finds what every group's rows get; false when a plugin must be asked in another way.
func (c *cycle) scoreByGroup(p *nodeGroups) bool {
	if p.scored.feasible == 1 {
		p.scored.scorers = nil
		return true
	}
	defer c.TimePoint("Score")()
	p.scored.scorers = scorersNotSkipped(c.Plugins.Score, c.State.GetSkipScorePlugins())
	n := len(p.scored.scorers)
	p.scored.shapeScorers, p.scored.raw, p.scored.normalized = resized(p.scored.shapeScorers, n),
		resized(p.scored.raw, n), resized(p.scored.normalized, n)
	start := int32(0)
	if n == 0 {
		start = 1
	}
	for _, at := range p.scored.asked {
		p.scored.groupTotals[at] = start
	}
	for i, s := range p.scored.scorers {
		p.scored.shapeScorers[i] = p.shape.scorerOf(s.Name())
		switch {
		case p.scored.shapeScorers[i] == nil:
			if !c.runScorePluginByGroup(p, i) {
				return false
			}
		case p.scored.shapeScorers[i].scaled:
			p.normalizeScores(i)
		default:
			continue // points of each row
		}
		for k, at := range p.scored.asked {
			p.scored.groupTotals[at] += int32(p.scored.normalized[i][k].Score * s.Weight)
		}
	}
	return true
}

func (p *nodeGroups) scoreBuffers(i int) (raw []int64, normalized framework.NodeScoreList) {
	p.scored.raw[i], p.scored.normalized[i] = resized(p.scored.raw[i], len(p.scored.rows)),
		resized(p.scored.normalized[i], len(p.scored.rows))
	clear(p.scored.raw[i])
	return p.scored.raw[i], p.scored.normalized[i]
}

// normalizeScores normalises raw scores of the podShape by the largest among the rows in the
// running.
func (p *nodeGroups) normalizeScores(i int) {
	s := p.scored.shapeScorers[i]
	raw, normalized := p.scoreBuffers(i)
	top := int64(0)
	for k, row := range p.scored.rows {
		raw[k] = int64(s.rawScore(row))
		top = max(top, raw[k])
	}
	for k := range raw {
		normalized[k].Score = s.normalize(raw[k], top)
	}
}

// runScorePluginByGroup asks an aggregating plugin to score one row of each group.
func (c *cycle) runScorePluginByGroup(p *nodeGroups, i int) bool {
	s := p.scored.scorers[i]
	o := c.evaluatorOf(s.Name())
	if o == nil || o.Score == nil {
		return false
	}
	raw, normalized := p.scoreBuffers(i)
	done := startTimer(c.PluginTimer, s.ScorePlugin, "Score")
	o.Score(p.scored.rows, raw)
	done(nil)
	for k, row := range p.scored.rows {
		normalized[k] = framework.NodeScore{Name: p.shape.cache.Table.NodeObjects[row].Name, Score: raw[k]}
	}
	if ext := s.ScoreExtensions(); ext != nil {
		done := startTimer(c.PluginTimer, s.ScorePlugin, "ScoreExtensionNormalize")
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
	if p.scored.feasible == 1 {
		r.chosen, r.SuggestedHost, r.TopScoredNodes = int(p.scored.rows[0]), p.shape.nodeName(p.scored.rows[0]), 1
		return
	}
	best, ties := p.ranks.Best(p.scored.groupTotals)
	pick := 0
	if ties > 1 && c.PickTie != nil {
		pick = c.PickTie(ties)
	}
	row := p.ranks.Nth(p.scored.groupTotals, best, pick)
	p.scored.topRows = p.ranks.Top(p.scored.topRows[:0], p.scored.groupTotals, MaxScores-1, row)
	r.chosen, r.TopScoredNodes, r.SuggestedHost, r.buffers = int(row), ties, p.shape.nodeName(row), c.Buffers
	r.RunnerUp, r.Lead = p.shape.nodeName(p.scored.topRows[0]), int64(best-p.totalScore(p.scored.topRows[0]))
}

func (p *nodeGroups) totalScore(row int32) int32 {
	return p.ranks.Points(row) + p.scored.groupTotals[p.ranks.Group(row)]
}
