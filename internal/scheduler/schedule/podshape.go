package schedule

import (
	"context"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// podShape is what is known of the Pods of one shape: for every node the first refusal of the
// plugins that share results, or their raw scores and the sum.
type podShape struct {
	*shapePlugins
	cache           *EquivalenceCache
	sharedPlugins   map[string]bool // plugins that are local for this shape
	uncacheable     bool            // something of it cannot be shared: its Pods take the plain path
	used            int64
	generation      int64 // of the snapshot the statuses are about; 0: none yet
	stateEntries    []stateEntry
	skipFilter      sets.Set[string]
	skipScore       sets.Set[string]
	skipSets        map[skipKey]sets.Set[string]
	nodePlugins     []*nodePlugin
	filters         []compiledPlugin[framework.FilterPlugin]
	compiledScorers []compiledScorer
	refusals
}

type stateEntry struct {
	key   framework.StateKey
	value framework.StateData
}

// compiledPlugin is a plugin with what it compiled for the shape; nil: it is asked node by node.
type compiledPlugin[P any] struct {
	plugin      P
	filterIndex int // place in the profile's list
	*columns.Evaluator
}

type compiledScorer struct {
	compiledPlugin[WeightedScorePlugin]
	scaled, reverse bool
	raw             []int32 // by row; nil while all are 0
}

// refusals are the refusals by row.
type refusals struct {
	refusalNumbers []uint16 // by row: 0 passes, else index into said
	statuses       []*framework.Status
	refusedBy      []int // by index: which filter said it, its place in the profile's list
	numberOf       map[*framework.Status]uint16
	numberByText   map[string]uint16
	explanations   map[int32]explanation
}

// newPodShape makes a shape without results. Bit i of local says that plugin names[i] of p shares
// its results for this shape; the others are called for each Pod. More than 64 others make the
// shape uncacheable.
func newPodShape(p *shapePlugins, local uint64, m *EquivalenceCache) *podShape {
	c := &podShape{shapePlugins: p, cache: m, sharedPlugins: map[string]bool{}, skipFilter: sets.Set[string]{},
		skipScore: sets.Set[string]{}}
	for i, name := range p.names {
		if i < 64 && local&(1<<i) != 0 {
			c.sharedPlugins[name] = true
		}
	}
	c.refusals = refusals{statuses: []*framework.Status{nil}, refusedBy: []int{-1},
		numberOf: map[*framework.Status]uint16{}, numberByText: map[string]uint16{}}
	for _, pl := range c.set.PreFilter {
		c.nodePlugin(pl).preFilter = pl
	}
	for _, pl := range c.set.Filter {
		c.nodePlugin(pl)
	}
	for _, pl := range c.set.PreScore {
		c.nodePlugin(pl).preScore = pl
	}
	for _, pl := range c.set.Score {
		c.nodePlugin(pl.ScorePlugin).scores = true
	}
	c.uncacheable = len(c.nodePlugins) > 64
	return c
}

// nodePlugin is a plugin that shares no results, and what else it is.
type nodePlugin struct {
	framework.Plugin
	bit              uint64 // its own among the others
	skipper          Skipper
	aggregating      AggregatingPlugin
	preFilter        framework.PreFilterPlugin
	preScore         framework.PreScorePlugin
	scores           bool
	followsPreFilter bool // does not score whom it skips at PreFilter
}

// nodePlugin finds or adds the plugin; one that nobody reads for plugins that share results.
func (c *podShape) nodePlugin(pl framework.Plugin) *nodePlugin {
	if c.sharedPlugins[pl.Name()] {
		return &nodePlugin{}
	}
	if i := slices.IndexFunc(c.nodePlugins, func(o *nodePlugin) bool { return o.Name() == pl.Name() }); i >= 0 {
		return c.nodePlugins[i]
	}
	o := &nodePlugin{Plugin: pl, bit: 1 << (len(c.nodePlugins) % 64)}
	o.skipper, _ = pl.(Skipper)
	_, o.followsPreFilter = pl.(SkipsPreScoreWithPreFilter)
	o.aggregating, _ = pl.(AggregatingPlugin)
	c.nodePlugins = append(c.nodePlugins, o)
	return o
}

// skipKey is which of the others run, which of these skip a point all the same, and which point
// that is.
type skipKey struct {
	active, skipped uint64
	scoring         bool
}

// skipSet are the plugins that skip a point: those that share and do, the others that are not
// active, and those that skipped when they were asked. The set is shared.
func (c *podShape) skipSet(h skipKey) sets.Set[string] {
	out, known := c.skipSets[h]
	if known {
		return out
	}
	out = c.skipFilter.Clone()
	if h.scoring {
		out = c.skipScore.Clone()
	}
	for _, o := range c.nodePlugins {
		if h.active&o.bit == 0 || h.skipped&o.bit != 0 {
			out.Insert(o.Name())
		}
	}
	if c.skipSets == nil {
		c.skipSets = map[skipKey]sets.Set[string]{}
	}
	c.skipSets[h] = out
	return out
}

// pluginBits are those of the others.
func pluginBits(of []*nodePlugin) (all uint64) {
	for _, o := range of {
		all |= o.bit
	}
	return all
}

func findNodePlugin(all []*nodePlugin, name string) *nodePlugin {
	for _, o := range all {
		if o.Name() == name {
			return o
		}
	}
	return nil
}

// stateRecorder keeps what plugins write.
type stateRecorder struct {
	framework.CycleState
	entries []stateEntry
}

// Write keeps an entry here and in the state.
func (r *stateRecorder) Write(key framework.StateKey, v framework.StateData) {
	r.entries = append(r.entries, stateEntry{key, v})
	r.CycleState.Write(key, v)
}

// prepare lets the plugins that share results prepare for the shape.
func (c *podShape) prepare(ctx context.Context, in *Input) {
	rec := &stateRecorder{CycleState: in.State}
	for _, p := range c.set.PreFilter {
		if !c.sharedPlugins[p.Name()] {
			continue
		}
		done := startTimer(in.PluginTimer, p, "PreFilter")
		result, s := p.PreFilter(ctx, rec, in.Pod, c.cache.Table.Nodes)
		if done(s); s.IsSkip() {
			c.skipFilter.Insert(p.Name())
		} else if !s.IsSuccess() || !result.AllNodes() {
			c.uncacheable = true
			return
		}
	}
	for _, p := range c.set.PreScore {
		if !c.sharedPlugins[p.Name()] {
			continue
		}
		done := startTimer(in.PluginTimer, p, "PreScore")
		s := p.PreScore(ctx, rec, in.Pod, c.cache.Table.Nodes)
		if done(s); s.IsSkip() {
			c.skipScore.Insert(p.Name())
		} else if !s.IsSuccess() {
			c.uncacheable = true
			return
		}
	}
	c.stateEntries = rec.entries
	c.compile(in)
}

// compile makes the shape's filters and scorers from the plugins that share results, with their
// column form where they have one. Scores must be normalized in a way that the cache can repeat
// (MaxNormalized) and fit 32 bits, else the shape is uncacheable.
func (c *podShape) compile(in *Input) {
	evaluator := func(plugin any) *columns.Evaluator {
		if x, ok := plugin.(ColumnPlugin); ok {
			return x.Evaluator(in.Pod, &c.cache.Table)
		}
		return nil
	}
	for i, f := range c.set.Filter {
		if c.sharedPlugins[f.Name()] && !c.skipFilter.Has(f.Name()) {
			c.filters = append(c.filters, compiledPlugin[framework.FilterPlugin]{f, i, evaluator(f)})
		}
	}
	for i, s := range c.set.Score {
		if !c.sharedPlugins[s.Name()] || c.skipScore.Has(s.Name()) {
			continue
		}
		o := compiledScorer{compiledPlugin: compiledPlugin[WeightedScorePlugin]{s, i, evaluator(s.ScorePlugin)}}
		if s.ScoreExtensions() != nil {
			x, ok := s.ScorePlugin.(MaxNormalized)
			if !ok {
				c.uncacheable = true
				return
			}
			o.scaled, o.reverse = true, x.NormalizesReversed()
		}
		c.compiledScorers = append(c.compiledScorers, o)
	}
	var most float64
	for _, s := range c.set.Score {
		most += float64(s.Weight) * float64(framework.MaxScore)
	}
	c.uncacheable = c.uncacheable || most > math.MaxInt32
	c.refusalNumbers = make([]uint16, c.cache.Table.Len())
}

// restoreState writes the entries of the plugins that share results into the state of a cycle.
func (c *podShape) restoreState(state framework.CycleState) {
	for _, n := range c.stateEntries {
		state.Write(n.key, n.value.Clone())
	}
}

// refresh filters and scores the nodes that changed since the podShape was last used. It may find
// that the podShape is uncacheable.
func (c *podShape) refresh(ctx context.Context, in *Input) {
	if c.generation == in.Snapshot.Generation() {
		return
	}
	rows := c.cache.changedRows(in, c.generation)
	c.generation = in.Snapshot.Generation()
	c.cache.counts.NodesFiltered += int64(len(rows))
	c.filter(ctx, in, rows)
	if !c.uncacheable {
		c.score(ctx, in, c.cache.passed)
	}
}

// scratch is memory reused from cycle to cycle.
type scratch struct {
	rowStatuses   []*framework.Status
	passed        []int32
	scores        []int64
	activePlugins []*nodePlugin
	aggregates    []*cachedAggregate
}

// filter evaluates the shared filters for the rows anew and stores each row's refusal number;
// m.passed are then the rows that no filter refused. A filter that fails makes the shape
// uncacheable.
func (c *podShape) filter(ctx context.Context, in *Input, rows []int32) {
	m := c.cache
	m.rowStatuses = resized(m.rowStatuses, len(rows))
	clear(m.rowStatuses)
	no := m.rowStatuses
	for i := range c.filters {
		f := &c.filters[i]
		if f.Evaluator != nil {
			if f.Filter != nil {
				done := startTimer(in.PluginTimer, f.plugin, "Filter")
				f.Filter(rows, no)
				done(nil)
			}
			continue
		}
		for k, row := range rows {
			if no[k] != nil {
				continue
			}
			done := startTimer(in.PluginTimer, f.plugin, "Filter")
			s := f.plugin.Filter(ctx, in.State, in.Pod, m.Table.Nodes[row])
			done(s)
			switch {
			case s.IsSuccess():
			case !s.IsRejected():
				c.uncacheable = true
				return
			default:
				if s.Plugin() != f.plugin.Name() {
					s.SetPlugin(f.plugin.Name())
				}
				no[k] = s
			}
		}
	}
	m.passed = m.passed[:0]
	for k, row := range rows {
		c.refusalNumbers[row] = c.intern(no[k])
		if no[k] == nil {
			m.passed = append(m.passed, row)
		}
	}
}

// intern gives a status its number. Too many different ones make the podShape uncacheable.
func (c *podShape) intern(s *framework.Status) uint16 {
	if s == nil {
		return 0
	}
	if i, ok := c.numberOf[s]; ok {
		return i
	}
	text := s.Plugin() + "\x00" + s.Code().String() + "\x00" + s.Message()
	i, ok := c.numberByText[text]
	if ok {
		return i
	}
	if len(c.statuses) > math.MaxUint16 {
		c.uncacheable = true
		return 1
	}
	i = uint16(len(c.statuses))
	c.numberByText[text], c.numberOf[s] = i, i
	c.statuses, c.refusedBy = append(c.statuses, s), append(c.refusedBy, c.filterIndex(s.Plugin()))
	return i
}

// filterIndex is the place of a plugin among the profile's Filter plugins; -1 if the shape has no
// shared filter of it.
func (c *podShape) filterIndex(plugin string) int {
	for i := range c.filters {
		if c.filters[i].plugin.Name() == plugin {
			return c.filters[i].filterIndex
		}
	}
	return -1
}
