package columns

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod/fit"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// Evaluator is the column form of a plugin: Filter and Score for many rows at once, compiled for
// one shape of Pods.
type Evaluator struct {
	// Filter writes a refusal for each row it refuses that no plugin refused before (no[i] is nil
	// and is about rows[i]); nil: the plugin refuses nothing.
	Filter func(rows []int32, no []*framework.Status)
	// Score gives raw scores; nil: the plugin scores 0 everywhere, or does not score.
	Score func(rows []int32, raw []int64)
}

// Capacity is a resource: what the node has and what is taken, by row.
type Capacity struct{ Allocatable, Requested []int64 }

// Rows are nodes by their place in a list, with the columns of those labels that were asked for.
// They belong to one goroutine; once every column is made, several may read.
type Rows struct {
	Nodes       []framework.NodeInfo // by row; the list of all nodes for callers that want one
	NodeObjects []*v1.Node
	labels      map[string]*Labels
}

// RowsOf makes the rows of a list of nodes, which they keep.
func RowsOf(nodes []framework.NodeInfo) *Rows {
	r := &Rows{Nodes: nodes, NodeObjects: make([]*v1.Node, len(nodes)), labels: map[string]*Labels{}}
	for i, n := range nodes {
		r.NodeObjects[i] = n.Node()
	}
	return r
}

// Len is the number of rows.
func (r *Rows) Len() int { return len(r.Nodes) }

// Table is the cluster by columns. It follows the snapshots of one snapshot.Cache, one goroutine at
// a time; readers hold it for one scheduling cycle.
type Table struct {
	Rows
	Unschedulable []bool
	HasImages     []bool   // has images
	CPU           Capacity // in thousandths
	Memory        Capacity // in bytes
	Storage       Capacity // in bytes
	Pods          Capacity
	NonZeroCPU    []int64 // requested, with defaults for containers that request nothing
	NonZeroMemory []int64
	TaintSet      []int32 // index into Taints
	Taints        [][]v1.Taint
	scalars       map[v1.ResourceName]*Capacity // made on demand, kept up from then on
	position
}

// position is how far the table has followed.
type position struct {
	layout, generation int64
	rows               []int32
}

// Layout is that of the snapshot followed; 0 before the first.
func (t *Table) Layout() int64 { return t.layout }

// Generation is that of the snapshot followed.
func (t *Table) Generation() int64 { return t.generation }

// Sync reads what changed since the snapshot followed before; everything when the layout is
// another.
func (t *Table) Sync(s *snapshot.Snapshot) {
	if t.layout == s.Layout() && t.generation == s.Generation() {
		return
	}
	known := false
	if t.layout == s.Layout() {
		t.rows, known = s.Since(t.generation, t.rows[:0])
	}
	if t.layout != s.Layout() {
		t.reset(s.Len())
	}
	t.layout, t.generation = s.Layout(), s.Generation()
	if known {
		for _, row := range t.rows {
			t.readRow(row, s.At(int(row)))
		}
		return
	}
	for i := range t.Nodes {
		t.readRow(int32(i), s.At(i))
	}
}

// reset makes the table empty columns of n rows.
func (t *Table) reset(n int) {
	ints := func() []int64 { return make([]int64, n) }
	*t = Table{
		Rows: Rows{Nodes: make([]framework.NodeInfo, n), NodeObjects: make([]*v1.Node, n),
			labels: map[string]*Labels{}}, Unschedulable: make([]bool, n),
		HasImages: make([]bool, n), TaintSet: make([]int32, n),
		CPU: Capacity{ints(), ints()}, Memory: Capacity{ints(), ints()}, Storage: Capacity{ints(), ints()},
		Pods: Capacity{ints(), ints()}, NonZeroCPU: ints(), NonZeroMemory: ints(),
		Taints: [][]v1.Taint{nil}, scalars: map[v1.ResourceName]*Capacity{}, position: position{rows: t.rows},
	}
}

// readRow reads a node into its row. An unchanged NodeInfo costs nothing; labels and taints are
// read again only if the Node object changed.
func (t *Table) readRow(row int32, n framework.NodeInfo) {
	if t.Nodes[row] == n {
		return
	}
	t.Nodes[row] = n
	if node := n.Node(); t.NodeObjects[row] != node {
		t.NodeObjects[row] = node
		t.readObject(row, node)
	}
	t.HasImages[row] = len(n.GetImageStates()) > 0
	has, used, non0 := snapshot.VectorOf(n.GetAllocatable()), snapshot.VectorOf(n.GetRequested()),
		snapshot.VectorOf(n.GetNonZeroRequested())
	t.CPU.set(row, has.MilliCPU, used.MilliCPU)
	t.Memory.set(row, has.Memory, used.Memory)
	t.Storage.set(row, has.EphemeralStorage, used.EphemeralStorage)
	t.Pods.set(row, has.Pods, used.Pods)
	t.NonZeroCPU[row], t.NonZeroMemory[row] = non0.MilliCPU, non0.Memory
	for name, r := range t.scalars {
		r.set(row, has.Scalar[name], used.Scalar[name])
	}
}

func (r *Capacity) set(row int32, has, used int64) { r.Allocatable[row], r.Requested[row] = has, used }

func (t *Table) readObject(row int32, node *v1.Node) {
	t.Unschedulable[row] = node.Spec.Unschedulable
	t.TaintSet[row] = t.taints(node.Spec.Taints)
	for key, l := range t.labels {
		l.set(row, node.Labels, key)
	}
}

// taints interns a list of taints; clusters have few different ones.
func (t *Table) taints(list []v1.Taint) int32 {
	if len(list) == 0 {
		return 0
	}
	same := func(other []v1.Taint) bool {
		return slices.EqualFunc(list, other,
			func(a, b v1.Taint) bool { return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect })
	}
	if i := slices.IndexFunc(t.Taints, same); i >= 0 {
		return int32(i)
	}
	t.Taints = append(t.Taints, list)
	return int32(len(t.Taints) - 1)
}

// Scalar gives the columns of an extended resource or one accounted by name.
func (t *Table) Scalar(name v1.ResourceName) *Capacity {
	r := t.scalars[name]
	if r == nil {
		r = &Capacity{make([]int64, t.Len()), make([]int64, t.Len())}
		for i, n := range t.Nodes {
			r.set(int32(i), snapshot.VectorOf(n.GetAllocatable()).Scalar[name],
				snapshot.VectorOf(n.GetRequested()).Scalar[name])
		}
		t.scalars[name] = r
	}
	return r
}

// Resource gives the columns of any resource.
func (t *Table) Resource(name v1.ResourceName) *Capacity {
	switch name {
	case v1.ResourceCPU:
		return &t.CPU
	case v1.ResourceMemory:
		return &t.Memory
	case v1.ResourceEphemeralStorage:
		return &t.Storage
	case v1.ResourcePods:
		return &t.Pods
	}
	if !fit.IsScalar(name) {
		return &Capacity{make([]int64, t.Len()), make([]int64, t.Len())}
	}
	return t.Scalar(name)
}
