package dynamicresources

import (
	"cmp"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodechanges"
)

// NodePools is a manager of devices that knows which nodes a change is about. With it, statuses
// about a node are kept until something changes there.
type NodePools interface {
	nodechanges.Source // of devices, and of what is taken of them
	// AllNodeLocal tells whether no device can be reached from several nodes.
	AllNodeLocal() bool
	// DevicesOf gives all slices of the pools that may matter to a node, and what is taken of
	// these. Both are for reading.
	DevicesOf(node string) ([]*resourceapi.ResourceSlice, *structured.AllocatedState)
}

// Pools is what there is to allocate from, by pool, with what is taken, and when that changed for
// which node. A pool whose slices all name one node concerns that node alone; any other pool
// concerns all nodes. The zero value is not ready; see NewPools. Callers see to it that one at a
// time uses it.
type Pools struct {
	pools  map[poolID]*pool
	ofNode map[string]map[poolID]*pool
	shared map[poolID]*pool
	nodechanges.Log
	all *structured.AllocatedState // handed out and still true; never changed afterwards
}

type poolID struct{ driver, pool string }

// pool is one driver's pool. A device may be in several claims for a moment (one is freed as the
// next gets it), hence the counts.
type pool struct {
	slices   map[string]*resourceapi.ResourceSlice // by name
	devices  map[structured.DeviceID]int
	shares   map[structured.SharedDeviceID]int
	consumed structured.ConsumedCapacityCollection
}

// NewPools has nothing.
func NewPools() *Pools {
	return &Pools{pools: map[poolID]*pool{}, ofNode: map[string]map[poolID]*pool{}, shared: map[poolID]*pool{}}
}

func (p *Pools) pool(id poolID) *pool {
	if p.pools[id] == nil {
		p.pools[id] = &pool{slices: map[string]*resourceapi.ResourceSlice{}, devices: map[structured.DeviceID]int{},
			shares:   map[structured.SharedDeviceID]int{},
			consumed: structured.NewConsumedCapacityCollection()}
	}
	return p.pools[id]
}

// nodes tells from where the pool's devices can be used: from one node, or perhaps from several;
// nowhere when it has no slices.
func (p *pool) nodes() (node string, several bool) {
	for _, s := range p.slices {
		name := deref(s.Spec.NodeName)
		if name == "" || node != "" && name != node {
			return "", true
		}
		node = name
	}
	return node, false
}

// SetSlice takes in a slice that came, changed or went; was and is are nil where there was or is
// none.
func (p *Pools) SetSlice(was, is *resourceapi.ResourceSlice) {
	if was != nil {
		id := poolID{was.Spec.Driver, was.Spec.Pool.Name}
		p.change(id, func(o *pool) { delete(o.slices, was.Name) })
	}
	if is != nil {
		id := poolID{is.Spec.Driver, is.Spec.Pool.Name}
		p.change(id, func(o *pool) { o.slices[is.Name] = is })
	}
}

// change changes a pool's slices, sorts the pool in where it belongs now and notes both for whom it
// mattered and for whom it matters.
func (p *Pools) change(id poolID, do func(*pool)) {
	o := p.pool(id)
	p.noteChange(o)
	if node, _ := o.nodes(); node != "" {
		if delete(p.ofNode[node], id); len(p.ofNode[node]) == 0 {
			delete(p.ofNode, node)
		}
	}
	delete(p.shared, id)
	do(o)
	p.noteChange(o)
	switch node, several := o.nodes(); {
	case several:
		p.shared[id] = o
	case node != "":
		if p.ofNode[node] == nil {
			p.ofNode[node] = map[poolID]*pool{}
		}
		p.ofNode[node][id] = o
	case o.isEmpty():
		delete(p.pools, id)
	}
}

func (p *Pools) noteChange(o *pool) {
	switch node, several := o.nodes(); {
	case several:
		p.NoteAll()
	case node != "":
		p.Note(node)
	}
}

// SetAllocation takes in that a claim which had one allocation has another; nil for none.
func (p *Pools) SetAllocation(was, is *resourceapi.AllocationResult) {
	p.all = nil
	p.countAllocation(was, -1)
	p.countAllocation(is, 1)
}

func (p *Pools) countAllocation(a *resourceapi.AllocationResult, by int) {
	if a == nil {
		return
	}
	touched := map[poolID]*pool{}
	of := func(id structured.DeviceID) *pool {
		at := poolID{id.Driver.String(), id.Pool.String()}
		touched[at] = p.pool(at)
		return touched[at]
	}
	one := NoAllocations()
	AddAllocation(one, a)
	for id := range one.AllocatedDevices {
		add(of(id).devices, id, by)
	}
	for id := range one.AllocatedSharedDeviceIDs {
		add(of(structured.DeviceID{Driver: id.Driver, Pool: id.Pool, Device: id.Device}).shares, id, by)
	}
	for id, c := range one.AggregatedCapacity {
		part := structured.DeviceConsumedCapacity{DeviceID: id, ConsumedCapacity: c}
		if o := of(id); by > 0 {
			o.consumed.Insert(part)
		} else {
			o.consumed.Remove(part)
		}
	}
	for id, o := range touched {
		if p.noteChange(o); o.isEmpty() {
			delete(p.pools, id)
		}
	}
}

func add[K comparable](m map[K]int, k K, by int) {
	if m[k] += by; m[k] == 0 {
		delete(m, k)
	}
}

func (p *pool) isEmpty() bool {
	return len(p.slices)+len(p.devices)+len(p.shares)+len(p.consumed) == 0
}

func (p *pool) addTo(s *structured.AllocatedState) {
	for id := range p.devices {
		s.AllocatedDevices.Insert(id)
	}
	for id := range p.shares {
		s.AllocatedSharedDeviceIDs.Insert(id)
	}
	maps.Copy(s.AggregatedCapacity, p.consumed.Clone())
}

// Allocated is what is taken of all pools, for reading.
func (p *Pools) Allocated() *structured.AllocatedState {
	if p.all == nil {
		p.all = NoAllocations()
		for _, o := range p.pools {
			o.addTo(p.all)
		}
	}
	c := *p.all
	return &c
}

// AllNodeLocal tells whether every pool concerns one node alone.
func (p *Pools) AllNodeLocal() bool { return len(p.shared) == 0 }

// DevicesOf gives the slices of all pools that concern a node, by name, and what is taken of them.
func (p *Pools) DevicesOf(node string) ([]*resourceapi.ResourceSlice, *structured.AllocatedState) {
	var out []*resourceapi.ResourceSlice
	taken := NoAllocations()
	for _, list := range []map[poolID]*pool{p.ofNode[node], p.shared} {
		for _, o := range list {
			out = slices.AppendSeq(out, maps.Values(o.slices))
			o.addTo(taken)
		}
	}
	slices.SortFunc(out, func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
	return out, taken
}
