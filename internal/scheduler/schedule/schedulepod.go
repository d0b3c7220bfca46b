package schedule

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// SchedulePod goes one of three ways. They give the same Result; each costs a fraction of the next.
// A row is a node by its place in the snapshot's list.
//
//	SchedulePod
//	  |
//	  |  scheduleFromCache, when Input.Cache is set, without extenders, and not for a Pod that is
//	  |  nominated itself or names its nodes
//	  |    podShape     by what the NodeLocal plugins read of the Pod (AppendShape): for each row
//	  |                 its refusal or raw scores. refresh runs them only on rows whose node
//	  |                 changed: by columns (ColumnPlugin, columns.Table), else node by node.
//	  |    aggregates   of an AggregatingPlugin, by what it reads of the Pod (AppendAggregateKey):
//	  |                 sums by topology domain. UpdateRow follows changed rows; PreFilter and
//	  |                 PreScore hand them to the cycle, Evaluator filters and scores rows.
//	  |    other plugins that do not skip this Pod: called anew each time (nodePlugin)
//	  |
//	  +-- 1. scheduleByGroup   no other plugins, and every node is wanted
//	  |        nodeGroups     rows with the same refusal, the same scaled scores and the same row
//	  |                       states of the aggregates are one group. Plugins run on one row of
//	  |                       each; columns.Ranks finds the best by group total and row points.
//	  |
//	  +-- 2. scheduleByNode    other plugins, a sample of nodes, or too many groups
//	  |        rowFilter      statuses from podShape and aggregates; other plugins, and where Pods
//	  |                       are nominated every plugin, run node by node
//	  |
//	  +-- 3. the plain path   preFilter, findNodesThatFitPod, findNodesThatPassExtenders,
//	           preScore, prioritizeNodes, selectHost: every plugin on every node
//
// A plugin states its rule once. Of NodeLocal plugins, Evaluator derives the columns from the rule
// about one node (columns.Memo, columns.FilterEach); of aggregating plugins,
// PreFilter, Filter, PreScore and Score make an aggregate over the snapshot for this one Pod.

// ErrNoNodes is the error of a Result when the cluster has no node (upstream's text).
var ErrNoNodes = errors.New("no nodes available to schedule pods")

// Input is what a scheduling cycle reads. Pod, Snapshot and Plugins are set by every caller: the
// scheduler, preemption, `why`, simulations. Buffers and Cache belong to one goroutine; all else
// may be shared by cycles that run at once.
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
	// columns and statuses kept from cycle to cycle; nil: every plugin runs on every node
	Cache       *EquivalenceCache
	Extenders   Extenders   // filter and score after the plugins; nil: none
	PluginTimer PluginTimer // timer for single plugins; nil: they are not timed
	// nodes that NominatedPodsForNode has Pods for; read with an EquivalenceCache only, which is
	// not used when it is nil but NominatedPodsForNode is not
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

// SchedulePod runs one scheduling cycle for one Pod, up to the choice of a node; it assumes and
// binds nothing. It never fails: what went wrong is in Result.Status. The Result reads Buffers and
// Cache until the next cycle that uses them. Plugins run on the caller's goroutine, or where
// in.Parallel runs them.
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
