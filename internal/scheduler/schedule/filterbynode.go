package schedule

import (
	"fmt"
	"slices"

	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// scheduleByNode takes the podShape's results where plugins share them and calls the others for the
// nodes that are left. It always ends the cycle.
func (c *cycle) scheduleByNode(shape *podShape, activePlugins []*nodePlugin) bool {
	c.Cache.counts.RowsFiltered++
	var others []framework.FilterPlugin
	for _, f := range c.Plugins.Filter {
		if findNodePlugin(activePlugins, f.Name()) != nil && !c.State.GetSkipFilterPlugins().Has(f.Name()) {
			others = append(others, f)
		}
	}
	if !c.filterByNode(shape, others) || !c.preScoreByNode(shape, activePlugins) || !c.scoreByNode(shape) {
		return true
	}
	c.selectHost()
	return true
}

// pluginsBefore tells how many of the others are asked before a plugin's place in the list of
// filters.
func pluginsBefore(all, others []framework.FilterPlugin, at int) int {
	n := 0
	for _, f := range all[:max(at, 0)] {
		if n < len(others) && f.Name() == others[n].Name() {
			n++
		}
	}
	return n
}

// rowFilter filters rows by the podShape and by the plugins that share no results.
type rowFilter struct {
	cycle                *cycle
	shape                *podShape
	nodePlugins          []framework.FilterPlugin
	pluginsBeforeRefusal []int // by refusal number of the podShape: how many of the others come before it
	// rows may be nominated for other Pods: every plugin filters these, with them and without
	hasNominated     bool
	all              []framework.FilterPlugin // for these
	statusesByPlugin [][]*framework.Status    // by place in others: statuses by row; nil: the plugin is asked
}

// newRowFilter prepares the filters of one Pod for all rows: it runs the filters that read whole
// columns once, and finds whether nodes have nominated Pods to count. others are the Filter plugins
// whose statuses the shape does not share.
func (c *cycle) newRowFilter(shape *podShape, others []framework.FilterPlugin) *rowFilter {
	m := &rowFilter{cycle: c, shape: shape, nodePlugins: others, pluginsBeforeRefusal: make([]int, len(shape.statuses))}
	m.pluginsBeforeRefusal[0] = len(others)
	for i := 1; i < len(m.pluginsBeforeRefusal); i++ {
		m.pluginsBeforeRefusal[i] = pluginsBefore(c.Plugins.Filter, others, shape.refusedBy[i])
	}
	m.filterAllRows()
	if !c.hasNominatedPods() {
		return m
	}
	m.hasNominated, m.all = true, notSkipped(c.Plugins.Filter, c.State.GetSkipFilterPlugins())
	return m
}

// filterRow is the status of a node, nil where the Pod fits: the first refusal in the order of the
// profile, be it of the shape or of a plugin called for this Pod alone.
func (m *rowFilter) filterRow(row int) *framework.Status {
	node := m.cycle.Cache.Table.Nodes[row]
	if m.hasNominated && len(m.cycle.Cache.nominated.pods[row]) > 0 {
		return m.filterWithNominatedPods(row)
	}
	no := m.shape.refusalNumbers[row]
	for k := range m.pluginsBeforeRefusal[no] {
		if m.statusesByPlugin[k] != nil {
			if s := m.statusesByPlugin[k][row]; s != nil {
				return s
			}
		} else if s := RunFilterPlugins(m.cycle.ctx, m.cycle.Input, m.nodePlugins[k:k+1], node); s != nil {
			return s
		}
	}
	return m.shape.statuses[no]
}

// filterAllRows lets aggregating plugins filter all rows at once.
func (m *rowFilter) filterAllRows() {
	m.statusesByPlugin = make([][]*framework.Status, len(m.nodePlugins))
	for k, f := range m.nodePlugins {
		o := m.cycle.evaluatorOf(f.Name())
		if o == nil {
			continue
		}
		rows := m.cycle.Cache.everyRow()
		m.statusesByPlugin[k] = make([]*framework.Status, len(rows))
		if o.Filter != nil {
			done := startTimer(m.cycle.PluginTimer, f, "Filter")
			o.Filter(rows, m.statusesByPlugin[k])
			done(nil)
		}
	}
}

// everyRow lists all rows.
func (m *EquivalenceCache) everyRow() []int32 {
	for len(m.allRows) < m.Table.Len() {
		m.allRows = append(m.allRows, int32(len(m.allRows)))
	}
	return m.allRows[:m.Table.Len()]
}

// hasNodePlugins tells whether a plugin is asked node by node, which is worth doing in parallel.
func (m *rowFilter) hasNodePlugins() bool {
	return slices.ContainsFunc(m.statusesByPlugin, func(s []*framework.Status) bool { return s == nil })
}

// filterByNode finds feasible nodes in the order of the sample; false ends the cycle.
func (c *cycle) filterByNode(shape *podShape, others []framework.FilterPlugin) bool {
	defer c.TimePoint("Filter")()
	r, nodes, m := c.result, c.Cache.Table.Nodes, c.newRowFilter(shape, others)
	n, start := len(nodes), 0
	enough := c.Sample.NumFeasibleNodesToFind(n)
	if enough < n {
		start = c.Sample.StartsAt % n
	}
	r.setVisitOrder(nodes, start)
	status := c.Buffers.statuses(n)
	c.feasible, c.rows = c.Buffers.feasible[:0], c.Cache.passed[:0]
	for from := 0; from < n && len(c.feasible) < enough; {
		to := n
		if enough < n {
			to = min(from+filterChunk, n)
		}
		ask := func(i int) { status[from+i] = m.filterRow((start + from + i) % n) }
		if m.hasNodePlugins() {
			c.Parallel(to-from, ask)
		} else {
			sequential(to-from, ask)
		}
		for ; from < to && len(c.feasible) < enough; from++ {
			row := (start + from) % n
			if s := status[from]; s.IsSuccess() {
				c.feasible, c.rows = append(c.feasible, nodes[row]), append(c.rows, int32(row))
			} else if !r.addRefusal(nodes[row], s) {
				r.Status = s
				return false
			}
		}
		r.EvaluatedNodes = from
	}
	c.Buffers.feasible, c.Cache.passed = c.feasible, c.rows
	if len(c.feasible) == 0 {
		r.Status = framework.NewStatus(framework.Unschedulable)
	}
	return len(c.feasible) > 0
}

// preScoreByNode lets the others prepare; those that share have.
func (c *cycle) preScoreByNode(shape *podShape, activePlugins []*nodePlugin) bool {
	if len(c.feasible) == 1 {
		return true
	}
	defer c.TimePoint("PreScore")()
	h := skipKey{active: pluginBits(activePlugins), scoring: true}
	for _, p := range c.Plugins.PreScore {
		o := findNodePlugin(activePlugins, p.Name())
		if o == nil {
			continue
		}
		s := c.runPreScorePlugin(p)
		if s.IsSkip() {
			h.skipped |= o.bit
		} else if !s.IsSuccess() {
			c.result.Status = framework.AsStatus(fmt.Errorf("running PreScore plugin %q: %w", p.Name(),
				s.AsError())).WithPlugin(p.Name())
			return false
		}
	}
	c.State.SetSkipScorePlugins(shape.skipSet(h))
	return true
}

// runPreScorePlugin runs PreScore of one plugin, over its aggregate where it has one.
func (c *cycle) runPreScorePlugin(p framework.PreScorePlugin) (s *framework.Status) {
	done := startTimer(c.PluginTimer, p, "PreScore")
	defer func() { done(s) }()
	if k := c.aggregateOf(p.Name()); k != nil {
		return k.PreScore(c.State, c.Pod, Feasible{Rows: c.rows})
	}
	return p.PreScore(c.ctx, c.State, c.Pod, c.feasible)
}

// scoreByNode scores the feasible nodes: from the shape, by columns, or by calls of the plugins
// that have neither. It sets the totals in the buffers; false: a plugin failed, and the result has
// its status. A single feasible node is not scored.
func (c *cycle) scoreByNode(shape *podShape) bool {
	r, b := c.result, c.Buffers
	r.feasible = c.feasible
	if len(c.feasible) == 1 {
		return true
	}
	defer c.TimePoint("Score")()
	r.scorers, r.buffers = scorersNotSkipped(c.Plugins.Score, c.State.GetSkipScorePlugins()), b
	b.resizeScores(len(r.scorers), c.feasible)
	called := make([]WeightedScorePlugin, 0, len(r.scorers))
	places := make([]int, 0, len(r.scorers))
	for p, s := range r.scorers {
		o := shape.scorerOf(s.Name())
		if swept := c.evaluatorOf(s.Name()); swept != nil && swept.Score != nil {
			done := startTimer(c.PluginTimer, s.ScorePlugin, "Score")
			raw := c.Cache.scoreRows(c.rows, swept)
			done(nil)
			for i := range raw {
				b.normalized[p][i].Score = raw[i]
			}
			continue
		}
		if o == nil {
			called, places = append(called, s), append(places, p)
			continue
		}
		for i, row := range c.rows {
			b.normalized[p][i].Score = int64(o.rawScore(row))
		}
	}
	if len(called) > 0 {
		c.runScorePluginsOnNodes(called, places)
	}
	if r.Status = c.normalizeAndWeigh(); r.Status != nil {
		return false
	}
	return true
}

func (m *EquivalenceCache) scoreRows(rows []int32, o *columns.Evaluator) []int64 {
	m.scores = resized(m.scores, len(rows))
	clear(m.scores)
	o.Score(rows, m.scores)
	return m.scores
}

// scorerOf finds what the podShape knows of a plugin's scores; nil when the plugin shares no
// results.
func (c *podShape) scorerOf(name string) *compiledScorer {
	for i := range c.compiledScorers {
		if c.compiledScorers[i].plugin.Name() == name {
			return &c.compiledScorers[i]
		}
	}
	return nil
}
