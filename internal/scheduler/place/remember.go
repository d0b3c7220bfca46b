package place

import (
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// remember rules from memory; false when this Pod must take the plain path, which then starts from the beginning.
func (c *cycle) remember() bool {
	m := c.Memory
	if c.Pod.Status.NominatedNodeName != "" || c.Nominated != nil && c.Promised == nil || !m.follow(&c.In) || c.named() {
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
	c.sums = c.Memory.sums[:0]
	loud, ok := c.loudPreFilter(class, c.loud(class))
	if !ok {
		return false
	}
	if !c.refresh(class) {
		return false
	}
	promised := c.promised()
	if promised {
		c.Memory.who.Follow(&c.In)
	}
	by := parts{class: class}
	if promised && len(loud) == 0 && c.Pledged != nil {
		by.rival, promised = rival{true, pod.Priority(c.Pod)}, false
	}
	if !promised && c.Sample.Enough(c.World.Len()) >= c.World.Len() && c.part(by, loud) {
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
func (c *cycle) loud(class *class) []*other {
	out := c.Memory.loud[:0]
	for _, o := range class.others {
		if o.quiet == nil || !o.quiet.Quiet(c.Pod, c.World) {
			out = append(out, o)
		}
	}
	c.Memory.loud = out
	return out
}

// loudPreFilter recalls what the judges that share noted and asks the others about the Pod; those that may still speak are left. False when one refuses the Pod or
// narrows the nodes, which the plain path says in full.
func (c *cycle) loudPreFilter(class *class, loud []*other) ([]*other, bool) {
	defer c.Time("PreFilter")()
	class.recall(c.State)
	left, skipped := loud[:0], uint64(0)
	for _, o := range loud {
		if o.prepares == nil {
			left = append(left, o)
			continue
		}
		result, s := c.askPreFilter(o)
		switch {
		case s.IsSkip():
			if o.scores && !o.silent {
				left = append(left, o)
			}
			skipped |= o.bit
			continue
		case !s.IsSuccess() || !result.AllNodes():
			return nil, false
		}
		left = append(left, o)
	}
	if len(left) == 0 {
		c.State.SetSkipScorePlugins(class.quieted(hush{scoring: true}))
	}
	c.State.SetSkipFilterPlugins(class.quieted(hush{loud: bits(left), skipped: skipped & bits(left)}))
	return left, true
}

// askPreFilter asks a judge about the Pod, from its sums where it keeps any.
func (c *cycle) askPreFilter(o *other) (_ *framework.PreFilterResult, s *framework.Status) {
	answered := c.Clock.of(o, "PreFilter")
	defer func() { answered(s) }()
	if o.tallying != nil {
		if k := c.Memory.tally(&c.In, o.tallying); k != nil {
			s = k.PreFilter(c.State, c.Pod)
			k.opinion = k.Opinion()
			c.sums = append(c.sums, k)
			c.Memory.sums = c.sums
			return nil, s
		}
	}
	return o.prepares.PreFilter(c.ctx, c.State, c.Pod, c.Memory.Table.Nodes)
}

// keeps finds the sums of a judge for this ruling; nil when it keeps none.
func (c *cycle) keeps(judge string) *kept {
	for _, k := range c.sums {
		if k.judge == judge {
			return k
		}
	}
	return nil
}

// opinion is what a judge with sums thinks of rows; nil when it keeps none.
func (c *cycle) opinion(judge string) *columns.Opinion {
	if k := c.keeps(judge); k != nil {
		return k.opinion
	}
	return nil
}

func (c *class) name(row int32) string { return c.memory.Table.Nodes[row].Node().Name }

// explained is a refusal put into words, and the node it is about.
type explained struct {
	node framework.NodeInfo
	no   uint16
	journal.NodeRefusal
}

// explain puts a refusal of a row into words. What was said of a node that has not changed since is said again.
func (c *class) explain(r *Ruling, row int32, no uint16) journal.NodeRefusal {
	node := c.memory.Table.Nodes[row]
	e, known := c.why[row]
	if !known || e.node != node || e.no != no {
		judge, _ := c.Filter[max(c.by[no], 0)].(Explainer)
		e = explained{node, no, r.explain(judge, refusal{node, c.said[no]})}
		if c.why == nil {
			c.why = map[int32]explained{}
		}
		c.why[row] = e
	}
	return e.NodeRefusal
}
