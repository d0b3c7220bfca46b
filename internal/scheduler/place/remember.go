package place

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// remember rules from memory; false when this Pod must take the plain path, which then starts from the beginning.
func (c *cycle) remember() bool {
	m := c.Memory
	if c.Pod.Status.NominatedNodeName != "" || c.Nominated != nil && c.Promised == nil || !m.follow(&c.In) {
		m.counts.Plain++
		return false
	}
	if c.remembered() {
		return true
	}
	m.counts.Plain++
	return false
}

func (c *cycle) remembered() bool {
	class := c.Memory.classOf(c.ctx, &c.In)
	if class.odd {
		return false
	}
	loud, ok := c.loudPreFilter(class, c.loud(class))
	if !ok {
		return false
	}
	if !c.refresh(class) {
		return false
	}
	if !c.promised() && c.Sample.Enough(c.World.Len()) >= c.World.Len() && c.part(class, loud) {
		return true
	}
	return c.mix(class, loud)
}

func (c *cycle) refresh(class *class) bool {
	defer c.Time("Filter")()
	class.refresh(c.ctx, &c.In)
	return !class.odd
}

// loud are the judges that neither share nor are quiet about this Pod.
func (c *cycle) loud(class *class) []framework.Plugin {
	var out []framework.Plugin
	for _, pl := range class.others {
		if q, ok := pl.(Quiet); !ok || !q.Quiet(c.Pod, c.World) {
			out = append(out, pl)
		}
	}
	return out
}

// quieted is a set of skipping judges with those added that have nothing to say.
func (c *class) quieted(skip sets.Set[string], loud []framework.Plugin) sets.Set[string] {
	if len(loud) == len(c.others) {
		return skip
	}
	skip = skip.Clone()
	for _, pl := range c.others {
		skip.Insert(pl.Name())
	}
	for _, pl := range loud {
		skip.Delete(pl.Name())
	}
	return skip
}

// loudPreFilter recalls what the judges that share noted and asks the others about the Pod; those that may still speak are left. False when one refuses the Pod or
// narrows the nodes, which the plain path says in full.
func (c *cycle) loudPreFilter(class *class, loud []framework.Plugin) ([]framework.Plugin, bool) {
	defer c.Time("PreFilter")()
	class.recall(c.State)
	left := loud[:0:0]
	for _, pl := range loud {
		p, ok := pl.(framework.PreFilterPlugin)
		if !ok || !seated(c.Judges.PreFilter, p) {
			left = append(left, pl)
			continue
		}
		result, s := c.askPreFilter(p)
		switch {
		case s.IsSkip():
			if class.marks(pl) {
				left = append(left, pl)
			}
			c.filtersSkipped = c.filtersSkipped.Union(sets.New(p.Name()))
			continue
		case !s.IsSuccess() || !result.AllNodes():
			return nil, false
		}
		left = append(left, pl)
	}
	if len(left) == 0 {
		if class.silent.filter == nil {
			class.silent.filter, class.silent.score = class.quieted(class.skipFilter, nil), class.quieted(class.skipScore, nil)
		}
		c.State.SetSkipFilterPlugins(class.silent.filter)
		c.State.SetSkipScorePlugins(class.silent.score)
		return nil, true
	}
	c.State.SetSkipFilterPlugins(class.quieted(class.skipFilter, left).Union(c.filtersSkipped))
	return left, true
}

// askPreFilter asks a judge about the Pod, from its sums where it keeps any.
func (c *cycle) askPreFilter(p framework.PreFilterPlugin) (_ *framework.PreFilterResult, s *framework.Status) {
	answered := c.Clock.of(p, "PreFilter")
	defer func() { answered(s) }()
	if t, ok := p.(Tallying); ok {
		if k := c.Memory.tally(&c.In, t); k != nil {
			if c.sums == nil {
				c.sums, c.swept = map[string]*kept{}, map[string]*columns.Opinion{}
			}
			c.sums[p.Name()] = k
			s = k.PreFilter(c.State, c.Pod)
			if o := k.Opinion(); o != nil {
				c.swept[p.Name()] = o
			}
			return nil, s
		}
	}
	return p.PreFilter(c.ctx, c.State, c.Pod, c.Memory.Table.Nodes)
}

// marks tells whether a judge scores.
func (c *class) marks(pl framework.Plugin) bool {
	return slices.ContainsFunc(c.Score, func(s Scorer) bool { return s.Name() == pl.Name() })
}

func seated[P framework.Plugin](all []P, pl P) bool {
	return slices.ContainsFunc(all, func(o P) bool { return o.Name() == pl.Name() })
}

// promised tells whether a node of the snapshot is promised to others.
func (c *cycle) promised() bool {
	return c.Nominated != nil && slices.ContainsFunc(c.Promised, func(name string) bool {
		_, ok := c.World.Index(name)
		return ok
	})
}

func (c *class) name(row int32) string { return c.memory.Table.Nodes[row].Node().Name }

// explained is a refusal put into words, and the node it is about.
type explained struct {
	node framework.NodeInfo
	journal.NodeRefusal
}

// explain puts the refusal of a row into words. What was said of a node that has not changed since is said again.
func (c *class) explain(r *Ruling, row int32) journal.NodeRefusal {
	no, node := c.no[row], c.memory.Table.Nodes[row]
	e, known := c.why[row]
	if !known || e.node != node {
		judge, _ := c.Filter[max(c.by[no], 0)].(Explainer)
		e = explained{node, r.explain(judge, refusal{node, c.said[no]})}
		if c.why == nil {
			c.why = map[int32]explained{}
		}
		c.why[row] = e
	}
	return e.NodeRefusal
}
