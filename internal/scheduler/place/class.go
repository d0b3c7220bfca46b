package place

import (
	"context"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// class is what is known of the Pods of one shape: for every node the first refusal of the judges that share, or their raw scores and the sum.
type class struct {
	*panel
	memory     *Memory
	shares     map[string]bool // judges that are local for this shape
	odd        bool            // something of it cannot be shared: its Pods take the plain path
	used       int64
	generation int64 // of the snapshot the verdicts are about; 0: none yet
	notes      []note
	skipFilter sets.Set[string]
	skipScore  sets.Set[string]
	hushed     map[hush]sets.Set[string]
	others     []*other
	filters    []opined[framework.FilterPlugin]
	scorers    []opinedScorer
	verdicts
}

type note struct {
	key   framework.StateKey
	value framework.StateData
}

// opined is a judge with what it compiled for the shape; nil: it is asked node by node.
type opined[P any] struct {
	judge P
	at    int // place in the profile's list
	*columns.Opinion
}

type opinedScorer struct {
	opined[Scorer]
	scaled, reverse bool
	raw             []int32 // by row; nil while all are 0
}

// verdicts are the refusals by row.
type verdicts struct {
	no     []uint16 // by row: 0 passes, else index into said
	said   []*framework.Status
	by     []int // by index: which filter said it, its place in the profile's list
	index  map[*framework.Status]uint16
	byText map[string]uint16
	why    map[int32]explained
}

func newClass(p *panel, local uint64, m *Memory) *class {
	c := &class{panel: p, memory: m, shares: map[string]bool{}, skipFilter: sets.Set[string]{}, skipScore: sets.Set[string]{}}
	for i, name := range p.names {
		if i < 64 && local&(1<<i) != 0 {
			c.shares[name] = true
		}
	}
	c.verdicts = verdicts{said: []*framework.Status{nil}, by: []int{-1}, index: map[*framework.Status]uint16{}, byText: map[string]uint16{}}
	for _, pl := range c.PreFilter {
		c.other(pl).prepares = pl
	}
	for _, pl := range c.Filter {
		c.other(pl)
	}
	for _, pl := range c.PreScore {
		c.other(pl).preScores = pl
	}
	for _, pl := range c.Score {
		c.other(pl.ScorePlugin).scores = true
	}
	c.odd = len(c.others) > 64
	return c
}

// other is a judge that does not share, and what else it is.
type other struct {
	framework.Plugin
	bit       uint64 // its own among the others
	quiet     Quiet
	tallying  Tallying
	prepares  framework.PreFilterPlugin
	preScores framework.PreScorePlugin
	scores    bool
	silent    bool // does not score whom it skips at PreFilter
}

// other finds or adds the judge; one that nobody reads for judges that share.
func (c *class) other(pl framework.Plugin) *other {
	if c.shares[pl.Name()] {
		return &other{}
	}
	if i := slices.IndexFunc(c.others, func(o *other) bool { return o.Name() == pl.Name() }); i >= 0 {
		return c.others[i]
	}
	o := &other{Plugin: pl, bit: 1 << (len(c.others) % 64)}
	o.quiet, _ = pl.(Quiet)
	_, o.silent = pl.(Unprepared)
	o.tallying, _ = pl.(Tallying)
	c.others = append(c.others, o)
	return o
}

// hush is which of the others speak, which of these skip a point all the same, and which point that is.
type hush struct {
	loud, skipped uint64
	scoring       bool
}

// quieted are the judges that skip a point: those that share and do, the others that are not loud, and those that skipped when they were asked. The set is shared.
func (c *class) quieted(h hush) sets.Set[string] {
	out, known := c.hushed[h]
	if known {
		return out
	}
	out = c.skipFilter.Clone()
	if h.scoring {
		out = c.skipScore.Clone()
	}
	for _, o := range c.others {
		if h.loud&o.bit == 0 || h.skipped&o.bit != 0 {
			out.Insert(o.Name())
		}
	}
	if c.hushed == nil {
		c.hushed = map[hush]sets.Set[string]{}
	}
	c.hushed[h] = out
	return out
}

// bits are those of the others.
func bits(of []*other) (all uint64) {
	for _, o := range of {
		all |= o.bit
	}
	return all
}

func find(all []*other, name string) *other {
	for _, o := range all {
		if o.Name() == name {
			return o
		}
	}
	return nil
}

// recorder keeps what judges write.
type recorder struct {
	framework.CycleState
	notes []note
}

// Write keeps a note here and in the state.
func (r *recorder) Write(key framework.StateKey, v framework.StateData) {
	r.notes = append(r.notes, note{key, v})
	r.CycleState.Write(key, v)
}

// begin lets the judges that share prepare for the shape.
func (c *class) begin(ctx context.Context, in *In) {
	rec := &recorder{CycleState: in.State}
	for _, p := range c.PreFilter {
		if !c.shares[p.Name()] {
			continue
		}
		answered := in.Clock.of(p, "PreFilter")
		result, s := p.PreFilter(ctx, rec, in.Pod, c.memory.Table.Nodes)
		if answered(s); s.IsSkip() {
			c.skipFilter.Insert(p.Name())
		} else if !s.IsSuccess() || !result.AllNodes() {
			c.odd = true
			return
		}
	}
	for _, p := range c.PreScore {
		if !c.shares[p.Name()] {
			continue
		}
		answered := in.Clock.of(p, "PreScore")
		s := p.PreScore(ctx, rec, in.Pod, c.memory.Table.Nodes)
		if answered(s); s.IsSkip() {
			c.skipScore.Insert(p.Name())
		} else if !s.IsSuccess() {
			c.odd = true
			return
		}
	}
	c.notes = rec.notes
	c.compile(in)
}

func (c *class) compile(in *In) {
	opinion := func(judge any) *columns.Opinion {
		if x, ok := judge.(Indexed); ok {
			return x.Opinion(in.Pod, &c.memory.Table)
		}
		return nil
	}
	for i, f := range c.Filter {
		if c.shares[f.Name()] && !c.skipFilter.Has(f.Name()) {
			c.filters = append(c.filters, opined[framework.FilterPlugin]{f, i, opinion(f)})
		}
	}
	for i, s := range c.Score {
		if !c.shares[s.Name()] || c.skipScore.Has(s.Name()) {
			continue
		}
		o := opinedScorer{opined: opined[Scorer]{s, i, opinion(s.ScorePlugin)}}
		if s.ScoreExtensions() != nil {
			x, ok := s.ScorePlugin.(Scaled)
			if !ok {
				c.odd = true
				return
			}
			o.scaled, o.reverse = true, x.Scale()
		}
		c.scorers = append(c.scorers, o)
	}
	var most float64
	for _, s := range c.Score {
		most += float64(s.Weight) * float64(framework.MaxScore)
	}
	c.odd = c.odd || most > math.MaxInt32
	c.no = make([]uint16, c.memory.Table.Len())
}

// recall writes the notes of the judges that share into the state of a cycle.
func (c *class) recall(state framework.CycleState) {
	for _, n := range c.notes {
		state.Write(n.key, n.value.Clone())
	}
}

// refresh judges the nodes that changed since the class was last used. It may find that the class is odd.
func (c *class) refresh(ctx context.Context, in *In) {
	if c.generation == in.World.Generation() {
		return
	}
	rows := c.memory.stale(in, c.generation)
	c.generation = in.World.Generation()
	c.memory.counts.Judged += int64(len(rows))
	c.filter(ctx, in, rows)
	if !c.odd {
		c.score(ctx, in, c.memory.passed)
	}
}

// scratch is memory reused from ruling to ruling.
type scratch struct {
	refused []*framework.Status
	passed  []int32
	scores  []int64
	loud    []*other
	sums    []*kept
}

func (c *class) filter(ctx context.Context, in *In, rows []int32) {
	m := c.memory
	m.refused = resized(m.refused, len(rows))
	clear(m.refused)
	no := m.refused
	for i := range c.filters {
		f := &c.filters[i]
		if f.Opinion != nil {
			if f.Refuse != nil {
				answered := in.Clock.of(f.judge, "Filter")
				f.Refuse(rows, no)
				answered(nil)
			}
			continue
		}
		for k, row := range rows {
			if no[k] != nil {
				continue
			}
			answered := in.Clock.of(f.judge, "Filter")
			s := f.judge.Filter(ctx, in.State, in.Pod, m.Table.Nodes[row])
			answered(s)
			switch {
			case s.IsSuccess():
			case !s.IsRejected():
				c.odd = true
				return
			default:
				if s.Plugin() != f.judge.Name() {
					s.SetPlugin(f.judge.Name())
				}
				no[k] = s
			}
		}
	}
	m.passed = m.passed[:0]
	for k, row := range rows {
		c.no[row] = c.intern(no[k])
		if no[k] == nil {
			m.passed = append(m.passed, row)
		}
	}
}

// intern gives a status its number. Too many different ones make the class odd.
func (c *class) intern(s *framework.Status) uint16 {
	if s == nil {
		return 0
	}
	if i, ok := c.index[s]; ok {
		return i
	}
	text := s.Plugin() + "\x00" + s.Code().String() + "\x00" + s.Message()
	i, ok := c.byText[text]
	if ok {
		return i
	}
	if len(c.said) > math.MaxUint16 {
		c.odd = true
		return 1
	}
	i = uint16(len(c.said))
	c.byText[text], c.index[s] = i, i
	c.said, c.by = append(c.said, s), append(c.by, c.filterAt(s.Plugin()))
	return i
}

func (c *class) filterAt(plugin string) int {
	for i := range c.filters {
		if c.filters[i].judge.Name() == plugin {
			return c.filters[i].at
		}
	}
	return -1
}
