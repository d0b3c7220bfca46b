package place

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
)

// block is how many nodes are judged before the sample is looked at again; it bounds the waste of a small sample, not its result.
const block = 256

// preFilter asks the plugins about the Pod; false ends the ruling.
func (c *cycle) preFilter() bool {
	defer c.Time("PreFilter")()
	result, named, end := preFilter(c.ctx, c.In, c.nodes)
	if !end.IsSuccess() {
		c.ruling.End = end
		if end.IsRejected() {
			c.ruling.preFilterMsg = end.Message()
			c.ruling.absent = end
			c.ruling.reject(end)
		}
		return false
	}
	if !result.AllNodes() {
		c.keepOnly(result.NodeNames, named)
	}
	return true
}

func (c *cycle) keepOnly(names sets.Set[string], by sets.Set[string]) {
	rows := make([]int, 0, len(names))
	for name := range names {
		if row, ok := c.World.Index(name); ok {
			rows = append(rows, row)
		}
	}
	slices.Sort(rows)
	c.nodes = make([]framework.NodeInfo, len(rows))
	for i, row := range rows {
		c.nodes[i] = c.World.At(row)
	}
	c.ruling.absent = framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(by)))
	c.ruling.rejected(by.UnsortedList()...)
}

// preFilter runs the PreFilter plugins: which nodes are left (nil result: all), and which plugins narrowed them.
func preFilter(ctx context.Context, in In, nodes []framework.NodeInfo) (*framework.PreFilterResult, sets.Set[string], *framework.Status) {
	var (
		result *framework.PreFilterResult
		end    *framework.Status
		skip   = sets.Set[string]{}
		named  = sets.Set[string]{}
	)
	for _, p := range in.Judges.PreFilter {
		answered := in.Clock.of(p, "PreFilter")
		r, s := p.PreFilter(ctx, in.State, in.Pod, nodes)
		answered(s)
		switch {
		case s.IsSkip():
			skip.Insert(p.Name())
			continue
		case s.Code() == framework.UnschedulableAndUnresolvable:
			return nil, nil, s.WithPlugin(p.Name())
		case s.IsRejected(): // the others are still asked: one may know that nothing helps
			end = s.WithPlugin(p.Name())
			continue
		case !s.IsSuccess():
			return nil, nil, framework.AsStatus(fmt.Errorf("running PreFilter plugin %q: %w", p.Name(), s.AsError())).WithPlugin(p.Name())
		}
		if r.AllNodes() {
			continue
		}
		named.Insert(p.Name())
		if result = result.Merge(r); len(result.NodeNames) == 0 {
			msg := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v simultaneously", sets.List(named))
			if len(named) == 1 {
				msg = fmt.Sprintf("node(s) didn't satisfy plugin %v", p.Name())
			}
			return nil, nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, msg).WithPlugin(p.Name())
		}
	}
	in.State.SetSkipFilterPlugins(skip)
	return result, named, end
}

// filter finds the feasible nodes; false ends the ruling.
func (c *cycle) filter() bool {
	defer c.Time("Filter")()
	filters := active(c.Judges.Filter, c.State.GetSkipFilterPlugins())
	r := c.ruling
	if n := c.World.Node(c.Pod.Status.NominatedNodeName); n != nil && c.left(n) {
		if s := c.judge(filters, n); s.IsSuccess() {
			c.feasible, r.Visited = []framework.NodeInfo{n}, 1
			return true
		}
	}
	enough, start := c.Sample.Enough(len(c.nodes)), 0
	if enough < len(c.nodes) {
		start = c.Sample.StartsAt % len(c.nodes)
	}
	at := func(i int) framework.NodeInfo { return c.nodes[(start+i)%len(c.nodes)] }
	r.sampled(c.nodes, start)
	said := c.Boards.statuses(len(c.nodes))
	c.feasible = c.Boards.feasible[:0]
	for from := 0; from < len(c.nodes) && len(c.feasible) < enough; {
		to := len(c.nodes)
		if enough < len(c.nodes) {
			to = min(from+block, len(c.nodes))
		}
		c.Each(to-from, func(i int) { said[from+i] = c.judge(filters, at(from+i)) })
		for ; from < to && len(c.feasible) < enough; from++ {
			if s := said[from]; s.IsSuccess() {
				c.feasible = append(c.feasible, at(from))
			} else if !r.refuse(at(from), s) {
				r.End = s
				return false
			}
		}
		r.Visited = from
	}
	c.Boards.feasible = c.feasible
	if len(c.feasible) == 0 {
		r.End = framework.NewStatus(framework.Unschedulable)
	}
	return len(c.feasible) > 0
}

func (c *cycle) left(n framework.NodeInfo) bool {
	if len(c.nodes) == c.World.Len() {
		return true
	}
	for _, m := range c.nodes {
		if m == n {
			return true
		}
	}
	return false
}

// judge asks the filters about a node, twice when Pods of no lower priority are nominated to it: with them, for they may come, and without, for they may not.
func (c *cycle) judge(filters []framework.FilterPlugin, n framework.NodeInfo) *framework.Status {
	if c.Nominated != nil {
		state, with, err := WithNominated(c.ctx, c.In, n)
		if err != nil {
			return framework.AsStatus(err)
		}
		if with != n {
			if s := Filter(c.ctx, In{Pod: c.Pod, State: state}, filters, with); !s.IsSuccess() {
				return s
			}
		}
	}
	return Filter(c.ctx, c.In, filters, n)
}

// WithNominated is the node with the Pods nominated to it added, if their priority is not below the Pod's, and the state that goes with it; otherwise both as given.
func WithNominated(ctx context.Context, in In, n framework.NodeInfo) (framework.CycleState, framework.NodeInfo, error) {
	state, with := in.State, n
	for _, p := range in.Nominated(n.Node().Name) {
		other := p.GetPod()
		if other.UID == in.Pod.UID || pod.Priority(other) < pod.Priority(in.Pod) {
			continue
		}
		if with == n {
			with, state = n.Snapshot(), in.State.Clone()
		}
		with.AddPodInfo(p)
		for _, pl := range in.Judges.PreFilter {
			if ext := pl.PreFilterExtensions(); ext != nil && !in.State.GetSkipFilterPlugins().Has(pl.Name()) {
				if s := ext.AddPod(ctx, state, in.Pod, p, with); !s.IsSuccess() {
					return nil, nil, fmt.Errorf("running AddPod on PreFilter plugin %q: %w", pl.Name(), s.AsError())
				}
			}
		}
	}
	return state, with, nil
}

// Filter asks the filters about one node; the first no ends it. Only Pod, State and Clock of in are read.
func Filter(ctx context.Context, in In, filters []framework.FilterPlugin, n framework.NodeInfo) *framework.Status {
	for _, f := range filters {
		answered := in.Clock.of(f, "Filter")
		s := f.Filter(ctx, in.State, in.Pod, n)
		if answered(s); s.IsSuccess() {
			continue
		}
		if !s.IsRejected() {
			s = framework.AsStatus(fmt.Errorf("running %q filter plugin: %w", f.Name(), s.AsError()))
		}
		if s.Plugin() != f.Name() {
			s.SetPlugin(f.Name())
		}
		return s
	}
	return nil
}

func active[P framework.Plugin](all []P, skip sets.Set[string]) []P {
	if len(skip) == 0 {
		return all
	}
	out := make([]P, 0, len(all))
	for _, p := range all {
		if !skip.Has(p.Name()) {
			out = append(out, p)
		}
	}
	return out
}

// Admits asks the filters that did not skip about one node, with the nominated Pods considered when in names them.
func Admits(ctx context.Context, in In, n framework.NodeInfo) *framework.Status {
	c := &cycle{In: in, ctx: ctx}
	return c.judge(active(in.Judges.Filter, in.State.GetSkipFilterPlugins()), n)
}
