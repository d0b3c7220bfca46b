package place

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// ErrNoNodes is the ruling's error when the cluster has no node (upstream's text).
var ErrNoNodes = errors.New("no nodes available to schedule pods")

// In is what a ruling is made from.
type In struct {
	Pod    *v1.Pod
	World  *snapshot.Snapshot
	Judges *Judges

	State     framework.CycleState                  // nil: a new State
	Nominated func(node string) []framework.PodInfo // Pods promised room on a node by preemption; nil: none
	Each      func(n int, do func(i int))           // runs do for 0..n-1, in any order or at once; nil: in order
	Sample    Sample                                // zero: every node
	Pick      func(n int) int                       // chooses among n nodes that share the top score; nil: the first
	Time      func(point string) (stop func())      // stop watch around an extension point; nil: none
	Boards    *Boards                               // memory reused from ruling to ruling; nil: new
	Memory    *Memory                               // columns and verdicts kept from ruling to ruling; nil: every judge is asked about every node
	Second    Second                                // has a say after the plugins; nil: nobody
	Clock     Clock                                 // stop watch for single plugins; nil: they are not timed
	Promised  []string                              // nodes that Nominated has Pods for; read with a Memory only, which is not used when it is nil but Nominated is not
	Pledged   Pledges                               // where Nominated and Promised come from, and what changed there; nil: that is not known
}

// Sample says how many feasible nodes are enough. The zero value looks at every node.
type Sample struct {
	Percent  int32 // of all nodes; 0 or 100 and more: all. Adaptive (-1): 50 % falling by one point per 125 nodes, at least 5 %
	AtLeast  int   // never fewer; 0 means 100, as upstream
	StartsAt int   // position in the list to look from, so that every node has its turn
}

// Adaptive is upstream's default percentage.
const Adaptive int32 = -1

const (
	sampleFloor   = 100 // upstream's minFeasibleNodesToFind
	percentFloor  = 5   // upstream's minFeasibleNodesPercentageToFind
	percentStart  = 50
	nodesPerPoint = 125
)

// Enough is the number of feasible nodes to look for among n.
func (s Sample) Enough(n int) int {
	floor := s.AtLeast
	if floor == 0 {
		floor = sampleFloor
	}
	if n < floor || s.Percent >= 100 || s.Percent == 0 {
		return n
	}
	percent := int(s.Percent)
	if s.Percent == Adaptive {
		percent = max(percentStart-n/nodesPerPoint, percentFloor)
	}
	return max(n*percent/100, floor)
}

// One rules about one Pod. It never fails: what went wrong is in the ruling.
func One(ctx context.Context, in In) *Ruling {
	if in.State == nil {
		in.State = NewState()
	}
	if in.Each == nil {
		in.Each = inOrder
	}
	if in.Time == nil {
		in.Time = func(string) func() { return func() {} }
	}
	if in.Boards == nil {
		in.Boards = &Boards{}
	}
	in.State.Write(worldKey, worldNote{in.World, in.Nominated != nil})
	c := &in.Boards.cycle
	*c = cycle{In: in, ctx: ctx, ruling: &Ruling{Pod: in.Pod, State: in.State, outcome: outcome{ctx: ctx, world: in.World, judges: in.Judges, no: in.Boards.no[:0]}}}
	c.rule()
	r := c.ruling
	in.Boards.no = r.no
	*c = cycle{} // nothing of this ruling is kept for the next
	return r
}

// rule goes through the points.
func (c *cycle) rule() {
	if c.World.Len() == 0 {
		c.ruling.End = framework.NewStatus(framework.UnschedulableAndUnresolvable).WithError(ErrNoNodes)
		for _, f := range c.Judges.Filter {
			c.ruling.rejected(f.Name()) // whichever of them wakes for a new node
		}
		return
	}
	if c.Memory != nil && c.Second == nil && c.remember() {
		return
	}
	c.nodes = c.everybody()
	if c.preFilter() && c.filter() && c.narrow() && c.preScore() && c.score() && c.weighAgain() {
		c.choose()
	}
}

// everybody lists all nodes; the memory has the list already when it follows this snapshot.
func (c *cycle) everybody() []framework.NodeInfo {
	if m := c.Memory; m != nil && c.World.Layout() != 0 && m.Table.Layout() == c.World.Layout() && m.Table.Generation() == c.World.Generation() {
		return m.Table.Nodes
	}
	return c.World.All()
}

// cycle is one run through the points.
type cycle struct {
	In
	ctx    context.Context
	nodes  []framework.NodeInfo // all, or those PreFilter left
	ruling *Ruling

	feasible []framework.NodeInfo
	rows     []int32 // of feasible, in a mixed ruling

	sums []*kept // of judges that keep some
}

func inOrder(n int, do func(int)) {
	for i := range n {
		do(i)
	}
}
