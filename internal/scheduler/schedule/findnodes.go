package schedule

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
)

// filterChunk is how many nodes are evaluated before the sample is looked at again; it bounds the
// waste of a small sample, not its result.
const filterChunk = 256

// preFilter asks the PreFilter plugins about the Pod; false ends the cycle.
func (c *cycle) preFilter() bool {
	defer c.TimePoint("PreFilter")()
	result, named, end := runPreFilterPlugins(c.ctx, c.Input, c.nodes)
	if !end.IsSuccess() {
		c.result.Status = end
		if end.IsRejected() {
			c.result.preFilterMsg = end.Message()
			c.result.absent = end
			c.result.rejectPod(end)
		}
		return false
	}
	if !result.AllNodes() {
		c.keepOnly(result.NodeNames, named)
	}
	return true
}

// keepOnly narrows the cycle to the named nodes, in the order of the snapshot. The others count as
// refused by the plugins that named them; names that the snapshot does not have are ignored.
func (c *cycle) keepOnly(names sets.Set[string], by sets.Set[string]) {
	rows := make([]int, 0, len(names))
	for name := range names {
		if row, ok := c.Snapshot.Index(name); ok {
			rows = append(rows, row)
		}
	}
	slices.Sort(rows)
	c.nodes = make([]framework.NodeInfo, len(rows))
	for i, row := range rows {
		c.nodes[i] = c.Snapshot.At(row)
	}
	c.result.absent = framework.NewStatus(framework.UnschedulableAndUnresolvable,
		fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(by)))
	c.result.addUnschedulablePlugins(by.UnsortedList()...)
}

// runPreFilterPlugins runs the PreFilter plugins: which nodes are left (nil result: all), and which
// plugins narrowed them.
func runPreFilterPlugins(ctx context.Context, in Input,
	nodes []framework.NodeInfo) (*framework.PreFilterResult, sets.Set[string], *framework.Status) {
	var (
		result *framework.PreFilterResult
		end    *framework.Status
		skip   = sets.Set[string]{}
		named  = sets.Set[string]{}
	)
	for _, p := range in.Plugins.PreFilter {
		done := startTimer(in.PluginTimer, p, "PreFilter")
		r, s := p.PreFilter(ctx, in.State, in.Pod, nodes)
		done(s)
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
			return nil, nil,
				framework.AsStatus(fmt.Errorf("running PreFilter plugin %q: %w", p.Name(), s.AsError())).WithPlugin(
					p.Name())
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

// findNodesThatFitPod finds the feasible nodes; false ends the cycle. This is the plain path, node
// by node as upstream's method of that name. Most Pods do not come here: SchedulePod (drawn in
// schedulepod.go) first tries its fast paths, which give the same Result. scheduleFromCache
// (schedulecached.go) takes filter and score results from the EquivalenceCache and ends in
// scheduleByGroup (filterbygroup.go) or scheduleByNode (filterbynode.go). Here come Pods of
// profiles with extenders, Pods that are nominated themselves or name their nodes (hasNamedNodes),
// Pods that a PreFilter plugin refuses or narrows the nodes for, and callers without an
// Input.Cache: preemption, `why`, simulations.
func (c *cycle) findNodesThatFitPod() bool {
	defer c.TimePoint("Filter")()
	filters := notSkipped(c.Plugins.Filter, c.State.GetSkipFilterPlugins())
	r := c.result
	// the nominated node first, as upstream's evaluateNominatedNode
	if n := c.Snapshot.Node(c.Pod.Status.NominatedNodeName); n != nil && c.passedPreFilter(n) {
		if s := c.runFilterPluginsWithNominatedPods(filters, n); s.IsSuccess() {
			c.feasible, r.EvaluatedNodes = []framework.NodeInfo{n}, 1
			return true
		}
	}
	enough, start := c.Sample.NumFeasibleNodesToFind(len(c.nodes)), 0
	if enough < len(c.nodes) {
		start = c.Sample.StartsAt % len(c.nodes)
	}
	at := func(i int) framework.NodeInfo { return c.nodes[(start+i)%len(c.nodes)] }
	r.setVisitOrder(c.nodes, start)
	status := c.Buffers.statuses(len(c.nodes))
	c.feasible = c.Buffers.feasible[:0]
	for from := 0; from < len(c.nodes) && len(c.feasible) < enough; {
		to := len(c.nodes)
		if enough < len(c.nodes) {
			to = min(from+filterChunk, len(c.nodes))
		}
		c.Parallel(to-from, func(i int) { status[from+i] = c.runFilterPluginsWithNominatedPods(filters, at(from+i)) })
		for ; from < to && len(c.feasible) < enough; from++ {
			if s := status[from]; s.IsSuccess() {
				c.feasible = append(c.feasible, at(from))
			} else if !r.addRefusal(at(from), s) {
				r.Status = s
				return false
			}
		}
		r.EvaluatedNodes = from
	}
	c.Buffers.feasible = c.feasible
	if len(c.feasible) == 0 {
		r.Status = framework.NewStatus(framework.Unschedulable)
	}
	return len(c.feasible) > 0
}

// passedPreFilter reports whether PreFilter left a node among those to filter.
func (c *cycle) passedPreFilter(n framework.NodeInfo) bool {
	if len(c.nodes) == c.Snapshot.Len() {
		return true
	}
	for _, m := range c.nodes {
		if m == n {
			return true
		}
	}
	return false
}

// runFilterPluginsWithNominatedPods asks the filters about a node, twice when Pods of no lower
// priority are nominated to it: with them, for they may come, and without, for they may not.
func (c *cycle) runFilterPluginsWithNominatedPods(filters []framework.FilterPlugin,
	n framework.NodeInfo) *framework.Status {
	if c.NominatedPodsForNode != nil {
		state, with, err := AddNominatedPods(c.ctx, c.Input, n)
		if err != nil {
			return framework.AsStatus(err)
		}
		if with != n {
			if s := RunFilterPlugins(c.ctx, Input{Pod: c.Pod, State: state}, filters, with); !s.IsSuccess() {
				return s
			}
		}
	}
	return RunFilterPlugins(c.ctx, c.Input, filters, n)
}

// AddNominatedPods is the node with the Pods nominated to it added, if their priority is not below
// the Pod's, and the state that goes with it; otherwise both as given.
func AddNominatedPods(ctx context.Context, in Input,
	n framework.NodeInfo) (framework.CycleState, framework.NodeInfo, error) {
	state, with := in.State, n
	for _, p := range in.NominatedPodsForNode(n.Node().Name) {
		other := p.GetPod()
		if other.UID == in.Pod.UID || pod.Priority(other) < pod.Priority(in.Pod) {
			continue
		}
		if with == n {
			with, state = n.Snapshot(), in.State.Clone()
		}
		with.AddPodInfo(p)
		for _, pl := range in.Plugins.PreFilter {
			if ext := pl.PreFilterExtensions(); ext != nil && !in.State.GetSkipFilterPlugins().Has(pl.Name()) {
				if s := ext.AddPod(ctx, state, in.Pod, p, with); !s.IsSuccess() {
					return nil, nil, fmt.Errorf("running AddPod on PreFilter plugin %q: %w", pl.Name(), s.AsError())
				}
			}
		}
	}
	return state, with, nil
}

// RunFilterPlugins asks the filters about one node; the first no ends it. Only Pod, CycleState and
// PluginTimer of in are read.
func RunFilterPlugins(ctx context.Context, in Input, filters []framework.FilterPlugin,
	n framework.NodeInfo) *framework.Status {
	for _, f := range filters {
		done := startTimer(in.PluginTimer, f, "Filter")
		s := f.Filter(ctx, in.State, in.Pod, n)
		if done(s); s.IsSuccess() {
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

func notSkipped[P framework.Plugin](all []P, skip sets.Set[string]) []P {
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

// PassesFilters asks the filters that did not skip about one node, with the nominated Pods
// considered when in names them.
func PassesFilters(ctx context.Context, in Input, n framework.NodeInfo) *framework.Status {
	c := &cycle{Input: in, ctx: ctx}
	return c.runFilterPluginsWithNominatedPods(notSkipped(in.Plugins.Filter, in.State.GetSkipFilterPlugins()), n)
}
