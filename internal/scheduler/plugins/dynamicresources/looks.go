package dynamicresources

import (
	"cmp"
	"crypto/sha256"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/changes"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// looks are numbers of nodes, by their places in the snapshot followed. Of nodes with the same number the allocator says the same about claims of any shape: each reaches
// devices of its own alone, and these are alike, as is what is taken of them. Where devices can be reached from several nodes every node has a number of its own, and a
// new one whenever something changes that may matter to it.
type looks struct {
	world       *snapshot.Snapshot // nil: none was seen
	objects     []*v1.Node         // by place
	of          []int32            // by place
	apart       bool
	clock       int64   // of the Stock
	hashes      []look  // by number
	users       []int32 // by number: how many nodes have it
	row         []int32 // by number: a place that had it last
	known       map[look]int32
	changes.Log       // of nodes that got another number
	age         int64 // counts how often numbers were given anew
}

// look is a sum of all that the allocator reads of a node and its devices but names that tell nodes apart.
type look [sha256.Size]byte

// lookless is what nodes have that are like no other.
var lookless look

// spare is how many numbers may be out of use, for each node, before all are given anew.
const spare = 3

// follow brings the numbers up to a snapshot. Edited snapshots are passed over: false when no other was seen.
func (l *looks) follow(s Stock, world *snapshot.Snapshot) bool {
	if world == nil || world.Layout() == 0 {
		return l.world != nil
	}
	nodes, now, known := s.Since(l.clock)
	l.clock = now
	was, apart := l.world, s.Apart()
	l.world = world
	if !known || was == nil || was.Layout() != world.Layout() || apart != l.apart || len(l.hashes) > (spare+1)*world.Len()+64 {
		l.apart = apart
		l.anew(s)
		return true
	}
	slices.Sort(nodes)
	for _, name := range slices.Compact(nodes) {
		if row, ok := world.Index(name); ok {
			l.read(s, row)
		}
	}
	if apart {
		return true
	}
	rows, known := world.Since(was.Generation(), nil)
	if !known {
		l.anew(s)
		return true
	}
	for _, row := range rows { // of a pool that several nodes reach, their labels decide who does
		if l.objects[row] != world.At(int(row)).Node() {
			l.read(s, int(row))
		}
	}
	return true
}

// anew gives every node a number.
func (l *looks) anew(s Stock) {
	n := l.world.Len()
	l.objects, l.of = make([]*v1.Node, n), make([]int32, n)
	l.hashes, l.users, l.row, l.known = nil, nil, nil, map[look]int32{}
	l.age++
	l.NoteAll()
	for row := range n {
		l.of[row] = -1
		l.read(s, row)
	}
}

// read gives a node the number of its look.
func (l *looks) read(s Stock, row int) {
	n := l.world.At(row).Node()
	l.objects[row] = n
	var h look
	if l.apart {
		there, taken := s.Of(n.Name)
		h = lookOf(&stock{there, taken})
	}
	at, ok := l.known[h]
	if !ok || h == lookless {
		at = int32(len(l.hashes))
		l.hashes, l.users, l.row = append(l.hashes, h), append(l.users, 0), append(l.row, 0)
		l.known[h] = at
	}
	was := l.of[row]
	if was == at {
		return
	}
	if was >= 0 {
		l.users[was]--
	}
	l.of[row], l.row[at] = at, int32(row)
	l.users[at]++
	l.Note(n.Name)
}

// at gives the number of a node; false for one that the snapshot followed does not have.
func (l *looks) at(n *v1.Node) (int32, bool) {
	if row, ok := l.world.Index(n.Name); ok && (l.apart || l.objects[row] == n) {
		return l.of[row], true
	}
	return 0, false
}

// example is the place of a node that has a number; false when none has.
func (l *looks) example(number int32) (int, bool) {
	if l.users[number] == 0 {
		return 0, false
	}
	if row := l.row[number]; l.of[row] == number {
		return int(row), true
	}
	row := slices.Index(l.of, number)
	l.row[number] = int32(row)
	return row, true
}

// lookOf sums up what a node's devices are taken from, where no other node reaches them. The order of slices, and that of pools' names, are part of it: the allocator takes
// devices in their order. Of devices that are shared there would be too much to say.
func lookOf(of *stock) look {
	if len(of.taken.AllocatedSharedDeviceIDs)+len(of.taken.AggregatedCapacity) > 0 {
		return lookless
	}
	ranks := map[poolID]int{}
	for _, s := range of.slices {
		ranks[poolID{s.Spec.Driver, s.Spec.Pool.Name}] = 0
	}
	for i, id := range slices.SortedFunc(maps.Keys(ranks), func(a, b poolID) int { return cmp.Or(cmp.Compare(a.driver, b.driver), cmp.Compare(a.pool, b.pool)) }) {
		ranks[id] = i
	}
	var sum []byte
	for _, s := range of.slices {
		spec := s.Spec
		sum = place.AppendInt(sum, int64(ranks[poolID{spec.Driver, spec.Pool.Name}]))
		spec.NodeName, spec.Pool.Name = nil, ""
		raw, err := spec.Marshal()
		if err != nil { // it came off the wire
			return lookless
		}
		sum = place.AppendString(sum, string(raw))
	}
	used := make([]string, 0, len(of.taken.AllocatedDevices))
	for id := range of.taken.AllocatedDevices {
		at := place.AppendInt(nil, int64(ranks[poolID{id.Driver.String(), id.Pool.String()}]))
		used = append(used, string(place.AppendString(at, id.Device.String())))
	}
	slices.Sort(used)
	for _, u := range used {
		sum = append(sum, u...)
	}
	return sha256.Sum256(sum)
}
