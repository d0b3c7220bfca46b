package dynamicresources

import (
	"cmp"
	"crypto/sha256"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodechanges"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// nodeStates are numbers of nodes, by their places in the snapshot followed. Of nodes with the same
// number the allocator says the same about claims of any shape: each reaches devices of its own
// alone, and these are alike, as is what is taken of them. Where devices can be reached from
// several nodes every node has a number of its own, and a new one whenever something changes that
// may matter to it.
type nodeStates struct {
	snapshot        *snapshot.Snapshot // nil: none was seen
	objects         []*v1.Node         // by place
	stateOfRow      []int32            // by place
	allNodeLocal    bool
	clock           int64       // of the NodePools
	hashes          []nodeState // by number
	users           []int32     // by number: how many nodes have it
	rowOf           []int32     // by number: a place that had it last
	numberOf        map[nodeState]int32
	nodechanges.Log       // of nodes that got another number
	generation      int64 // counts how often numbers were given anew
}

// nodeState is a sum of all that the allocator reads of a node and its devices but names, which
// differ from node to node.
type nodeState [sha256.Size]byte

// noNodeState is what nodes have that are like no other.
var noNodeState nodeState

// spareRows is how many numbers may be out of use, for each node, before all are given anew.
const spareRows = 3

// sync brings the numbers up to a snapshot. Edited snapshots are passed over: false when no other
// was seen.
func (l *nodeStates) sync(s NodePools, snap *snapshot.Snapshot) bool {
	if snap == nil || snap.Layout() == 0 {
		return l.snapshot != nil
	}
	nodes, now, known := s.Since(l.clock)
	l.clock = now
	was, apart := l.snapshot, s.AllNodeLocal()
	l.snapshot = snap
	if !known || was == nil || was.Layout() != snap.Layout() || apart != l.allNodeLocal ||
		len(l.hashes) > (spareRows+1)*snap.Len()+64 {
		l.allNodeLocal = apart
		l.rebuild(s)
		return true
	}
	slices.Sort(nodes)
	for _, name := range slices.Compact(nodes) {
		if row, ok := snap.Index(name); ok {
			l.readRow(s, row)
		}
	}
	if apart {
		return true
	}
	rows, known := snap.Since(was.Generation(), nil)
	if !known {
		l.rebuild(s)
		return true
	}
	for _, row := range rows { // of a pool that several nodes reach, their labels decide who does
		if l.objects[row] != snap.At(int(row)).Node() {
			l.readRow(s, int(row))
		}
	}
	return true
}

// rebuild gives every node a number.
func (l *nodeStates) rebuild(s NodePools) {
	n := l.snapshot.Len()
	l.objects, l.stateOfRow = make([]*v1.Node, n), make([]int32, n)
	l.hashes, l.users, l.rowOf, l.numberOf = nil, nil, nil, map[nodeState]int32{}
	l.generation++
	l.NoteAll()
	for row := range n {
		l.stateOfRow[row] = -1
		l.readRow(s, row)
	}
}

// readRow gives a node the number of its look.
func (l *nodeStates) readRow(s NodePools, row int) {
	n := l.snapshot.At(row).Node()
	l.objects[row] = n
	var h nodeState
	if l.allNodeLocal {
		there, taken := s.DevicesOf(n.Name)
		h = nodeStateOf(&deviceState{there, taken})
	}
	at, ok := l.numberOf[h]
	if !ok || h == noNodeState {
		at = int32(len(l.hashes))
		l.hashes, l.users, l.rowOf = append(l.hashes, h), append(l.users, 0), append(l.rowOf, 0)
		l.numberOf[h] = at
	}
	was := l.stateOfRow[row]
	if was == at {
		return
	}
	if was >= 0 {
		l.users[was]--
	}
	l.stateOfRow[row], l.rowOf[at] = at, int32(row)
	l.users[at]++
	l.Note(n.Name)
}

// stateOfNode gives the number of a node; false for one that the snapshot followed does not have.
func (l *nodeStates) stateOfNode(n *v1.Node) (int32, bool) {
	if row, ok := l.snapshot.Index(n.Name); ok && (l.allNodeLocal || l.objects[row] == n) {
		return l.stateOfRow[row], true
	}
	return 0, false
}

// rowWithState is the place of a node that has a number; false when none has.
func (l *nodeStates) rowWithState(number int32) (int, bool) {
	if l.users[number] == 0 {
		return 0, false
	}
	if row := l.rowOf[number]; l.stateOfRow[row] == number {
		return int(row), true
	}
	row := slices.Index(l.stateOfRow, number)
	l.rowOf[number] = int32(row)
	return row, true
}

// nodeStateOf sums up what a node's devices are taken from, where no other node reaches them. The
// order of slices, and that of pools' names, are part of it: the allocator takes devices in their
// order. Of devices that are shared there would be too much to say.
func nodeStateOf(of *deviceState) nodeState {
	if len(of.allocated.AllocatedSharedDeviceIDs)+len(of.allocated.AggregatedCapacity) > 0 {
		return noNodeState
	}
	ranks := map[poolID]int{}
	for _, s := range of.slices {
		ranks[poolID{s.Spec.Driver, s.Spec.Pool.Name}] = 0
	}
	for i, id := range slices.SortedFunc(maps.Keys(ranks),
		func(a, b poolID) int { return cmp.Or(cmp.Compare(a.driver, b.driver), cmp.Compare(a.pool, b.pool)) }) {
		ranks[id] = i
	}
	var sum []byte
	for _, s := range of.slices {
		spec := s.Spec
		sum = schedule.AppendInt(sum, int64(ranks[poolID{spec.Driver, spec.Pool.Name}]))
		spec.NodeName, spec.Pool.Name = nil, ""
		raw, err := spec.Marshal()
		if err != nil { // it came off the wire
			return noNodeState
		}
		sum = schedule.AppendString(sum, string(raw))
	}
	used := make([]string, 0, len(of.allocated.AllocatedDevices))
	for id := range of.allocated.AllocatedDevices {
		at := schedule.AppendInt(nil, int64(ranks[poolID{id.Driver.String(), id.Pool.String()}]))
		used = append(used, string(schedule.AppendString(at, id.Device.String())))
	}
	slices.Sort(used)
	for _, u := range used {
		sum = append(sum, u...)
	}
	return sha256.Sum256(sum)
}
