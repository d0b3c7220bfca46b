package schedule

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// ErrNoNodes is the error of a Result when the cluster has no node (upstream's text).
var ErrNoNodes = errors.New("no nodes available to schedule pods")

// Input is what a scheduling cycle reads.
type Input struct {
	Pod      *v1.Pod
	Snapshot *snapshot.Snapshot
	Plugins  *PluginSet

	State                framework.CycleState                  // nil: a new CycleState
	NominatedPodsForNode func(node string) []framework.PodInfo // Pods nominated to a node; nil: none
	// runs do for 0..n-1, in any order or at once; nil: in order
	Parallel func(n int, do func(i int))
	Sample   Sample // zero: every node
	// chooses among n nodes that share the top score; nil: the first
	PickTie   func(n int) int
	TimePoint func(point string) (stop func()) // timer around an extension point; nil: none
	Buffers   *Buffers                         // memory reused from cycle to cycle; nil: new
	// columns and statuses kept from cycle to cycle; nil: every plugin is asked about every node
	Cache       *EquivalenceCache
	Extenders   Extenders   // filter and score after the plugins; nil: none
	PluginTimer PluginTimer // timer for single plugins; nil: they are not timed
	// nodes that NominatedPodsForNode has Pods for; read with an EquivalenceCache only, which is
	// not used when it is nil but Nominated is not
	NominatedNodes []string
	// where NominatedPodsForNode and NominatedNodes come from, and what changed there; nil: that is
	// not known
	Nominations Nominations
}

// Sample says how many feasible nodes are enough. The zero value looks at every node.
type Sample struct {
	// of all nodes; 0 or 100 and more: all. AdaptivePercentage (-1): 50 % falling by one point per
	// 125 nodes, at least 5 %
	Percent  int32
	AtLeast  int // never fewer; 0 means 100, as upstream
	StartsAt int // position in the list to look from, so that every node has its turn
}

// AdaptivePercentage is upstream's default percentage.
const AdaptivePercentage int32 = -1

const (
	minFeasibleNodesToFind           = 100 // upstream's minFeasibleNodesToFind
	minFeasibleNodesPercentageToFind = 5   // upstream's minFeasibleNodesPercentageToFind
	adaptivePercentageStart          = 50
	nodesPerPercent                  = 125
)

// NumFeasibleNodesToFind is the number of feasible nodes to look for among n.
func (s Sample) NumFeasibleNodesToFind(n int) int {
	floor := s.AtLeast
	if floor == 0 {
		floor = minFeasibleNodesToFind
	}
	if n < floor || s.Percent >= 100 || s.Percent == 0 {
		return n
	}
	percent := int(s.Percent)
	if s.Percent == AdaptivePercentage {
		percent = max(adaptivePercentageStart-n/nodesPerPercent, minFeasibleNodesPercentageToFind)
	}
	return max(n*percent/100, floor)
}

// SchedulePod runs one scheduling cycle for one Pod. It never fails: what went wrong is in the
// Result.
func SchedulePod(ctx context.Context, in Input) *Result {
	if in.State == nil {
		in.State = NewCycleState()
	}
	if in.Parallel == nil {
		in.Parallel = sequential
	}
	if in.TimePoint == nil {
		in.TimePoint = func(string) func() { return func() {} }
	}
	if in.Buffers == nil {
		in.Buffers = &Buffers{}
	}
	in.State.Write(snapshotKey, snapshotEntry{in.Snapshot, in.NominatedPodsForNode != nil})
	c := &in.Buffers.cycle
	*c = cycle{Input: in, ctx: ctx, result: &Result{Pod: in.Pod, State: in.State,
		diagnosis: diagnosis{ctx: ctx, snapshot: in.Snapshot, plugins: in.Plugins, refusals: in.Buffers.refusals[:0]}}}
	c.run()
	r := c.result
	in.Buffers.refusals = r.refusals
	*c = cycle{} // nothing of this cycle is kept for the next
	return r
}

// run goes through the points.
func (c *cycle) run() {
	if c.Snapshot.Len() == 0 {
		c.result.Status = framework.NewStatus(framework.UnschedulableAndUnresolvable).WithError(ErrNoNodes)
		for _, f := range c.Plugins.Filter {
			c.result.addUnschedulablePlugins(f.Name()) // whichever of them wakes for a new node
		}
		return
	}
	if c.Cache != nil && c.Extenders == nil && c.scheduleFromCache() {
		return
	}
	c.nodes = c.allNodes()
	if c.preFilter() && c.findNodesThatFitPod() && c.findNodesThatPassExtenders() && c.preScore() &&
		c.prioritizeNodes() && c.prioritizeWithExtenders() {
		c.selectHost()
	}
}

// allNodes lists all nodes; the memory has the list already when it follows this snapshot.
func (c *cycle) allNodes() []framework.NodeInfo {
	if m := c.Cache; m != nil && c.Snapshot.Layout() != 0 && m.Table.Layout() == c.Snapshot.Layout() &&
		m.Table.Generation() == c.Snapshot.Generation() {
		return m.Table.Nodes
	}
	return c.Snapshot.All()
}

// cycle is one run through the points.
type cycle struct {
	Input
	ctx    context.Context
	nodes  []framework.NodeInfo // all, or those PreFilter left
	result *Result

	feasible []framework.NodeInfo
	rows     []int32 // of feasible, where some plugins are called node by node

	aggregates []*cachedAggregate // of plugins that keep some
}

func sequential(n int, do func(int)) {
	for i := range n {
		do(i)
	}
}
