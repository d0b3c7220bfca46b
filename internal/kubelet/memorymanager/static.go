package memorymanager

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/memorymanager/state"
	"github.com/gantry-project/gantry/internal/kubelet/topologymanager"
)

// take counts size bytes of a kind as given from the nodes, in their order. The nodes belong
// together from then on.
func take(m state.NUMANodeMap, nodes []int, name v1.ResourceName, size uint64) {
	for _, id := range nodes {
		m[id].NumberOfAssignments++
		m[id].Cells = slices.Clone(nodes)
		if t := m[id].MemoryMap[name]; t != nil {
			n := min(size, t.Free)
			t.Free -= n
			t.Reserved += n
			size -= n
		}
	}
}

// giveBack undoes take for the blocks.
func giveBack(m state.NUMANodeMap, blocks []state.Block) {
	for _, b := range blocks {
		size := b.Size
		for _, id := range b.NUMAAffinity {
			if m[id].NumberOfAssignments--; m[id].NumberOfAssignments == 0 {
				m[id].Cells = []int{id}
			}
			if t := m[id].MemoryMap[b.Type]; t != nil {
				n := min(size, t.Reserved)
				t.Free += n
				t.Reserved -= n
				size -= n
			}
		}
	}
}

// reusable is memory that init containers of one Pod had, which its later containers take again, by
// the nodes that it is on.
type reusable map[topologymanager.Mask]amounts

// hints are the sets of nodes that a request could be given from, the same for all kinds of memory;
// no kinds when there is none. A node that memory was taken from alone is never taken from together
// with others, nor one of a group without the group. Those that span as few nodes as the request
// needs are preferred.
func hints(m state.NUMANodeMap, again reusable, r amounts) map[string][]topologymanager.Hint {
	nodes := slices.Sorted(maps.Keys(m))
	least := len(nodes)
	var masks []topologymanager.Mask
	for mask := range topologymanager.Masks(nodes) {
		free, allocatable := freeAndAllocatable(m, mask, r)
		if !covers(allocatable, r, nil) {
			continue
		}
		least = min(least, mask.Count())
		lone := mask.Count() == 1 && len(m[mask.Bits()[0]].Cells) > 1
		if !lone && !mixes(m, mask) && covers(free, r, again[mask]) {
			masks = append(masks, mask)
		}
	}
	out := map[string][]topologymanager.Hint{}
	for _, mask := range masks {
		for name := range r {
			out[string(name)] = append(out[string(name)],
				topologymanager.Hint{NUMANodeAffinity: mask, Preferred: mask.Count() == least})
		}
	}
	return out
}

// freeAndAllocatable are the free and the allocatable bytes of the nodes by kind.
func freeAndAllocatable(m state.NUMANodeMap, mask topologymanager.Mask, r amounts) (free, allocatable amounts) {
	free, allocatable = amounts{}, amounts{}
	for _, id := range mask.Bits() {
		for name := range r {
			if n := m[id]; n != nil && n.MemoryMap[name] != nil {
				free[name] += n.MemoryMap[name].Free
				allocatable[name] += n.MemoryMap[name].Allocatable
			}
		}
	}
	return free, allocatable
}

// covers tells whether there is enough of each kind, counting extra.
func covers(have, r, extra amounts) bool {
	for name, n := range r {
		if have[name]+extra[name] < n {
			return false
		}
	}
	return true
}

// mixes tells whether taking from several nodes together would join one that is in use alone or
// with others.
func mixes(m state.NUMANodeMap, mask topologymanager.Mask) bool {
	if mask.Count() == 1 {
		return false
	}
	for _, id := range mask.Bits() {
		if n := m[id]; n.NumberOfAssignments > 0 && (len(n.Cells) == 1 || topologymanager.MaskOf(n.Cells...) != mask) {
			return true
		}
	}
	return false
}

// bestHint is the preferred one of fewest nodes; the zero Hint of none.
func bestHint(list []topologymanager.Hint) topologymanager.Hint {
	var best topologymanager.Hint
	for _, h := range list {
		if best.NUMANodeAffinity == 0 || h.Preferred && !best.Preferred ||
			h.Preferred == best.Preferred && h.NUMANodeAffinity.IsNarrowerThan(best.NUMANodeAffinity) {
			best = h
		}
	}
	return best
}

// place settles the nodes for a request: those of the topology manager's affinity, or with none the
// best there are, extended when they do not have enough. The errors are upstream's.
func place(m state.NUMANodeMap, again reusable, r amounts,
	affinity topologymanager.Hint) (topologymanager.Mask, error) {
	best := affinity
	var list []topologymanager.Hint
	possible := func() []topologymanager.Hint {
		if list == nil {
			list = hints(m, again, r)[string(v1.ResourceMemory)]
		}
		return list
	}
	if best.NUMANodeAffinity == 0 {
		if len(hints(m, again, r)) == 0 {
			return 0, errors.New("[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough " +
				"memory is available")
		}
		best = bestHint(possible())
		if !best.Preferred && affinity.Preferred {
			return 0, errors.New("[memorymanager] failed to find the default preferred hint")
		}
	}
	if free, _ := freeAndAllocatable(m, best.NUMANodeAffinity, r); !covers(free, r, nil) {
		wider := slices.DeleteFunc(slices.Clone(possible()), func(h topologymanager.Hint) bool {
			return h.NUMANodeAffinity&best.NUMANodeAffinity != best.NUMANodeAffinity
		})
		if len(wider) == 0 {
			return 0, errors.New("[memorymanager] failed to find NUMA nodes to extend the current topology hint")
		}
		extended := bestHint(wider)
		if !extended.Preferred && best.Preferred {
			return 0, errors.New("[memorymanager] failed to find the extended preferred hint")
		}
		best = extended
	}
	if best.NUMANodeAffinity == 0 {
		return 0, errors.New("[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough " +
			"memory is available")
	}
	for _, id := range best.NUMANodeAffinity.Bits() {
		if m[id] == nil {
			return 0, fmt.Errorf("[memorymanager] NUMA node %d has no memory", id)
		}
	}
	if mixes(m, best.NUMANodeAffinity) {
		return 0, errors.New("[memorymanager] preferred hint violates NUMA node allocation")
	}
	return best.NUMANodeAffinity, nil
}

// blocks are a request on the nodes, in the order of kinds.
func blocks(r amounts, nodes topologymanager.Mask) []state.Block {
	var out []state.Block
	for _, name := range r.kinds() {
		out = append(out, state.Block{NUMAAffinity: nodes.Bits(), Type: name, Size: r[name]})
	}
	return out
}

// start makes a new state whole, or holds one that was kept against the machine. The errors are
// upstream's.
func start(s *state.State, empty state.NUMANodeMap) error {
	if len(s.Machine) == 0 {
		if len(s.Assignments) != 0 {
			return errors.New("[memorymanager] machine state can not be empty when it has memory assignments")
		}
		s.Machine = empty
		return nil
	}
	for uid, list := range s.Assignments {
		if whole := s.Pods[uid].MemoryBlocks; len(whole) > 0 {
			if err := expect(empty, whole, uid, ""); err != nil {
				return err
			}
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if err := expect(empty, list[name], uid, name); err != nil {
				return err
			}
		}
	}
	if !sameMachine(s.Machine, empty) {
		return errors.New("[memorymanager] the expected machine state is different from the real one")
	}
	return nil
}

// expect takes blocks from a machine that an earlier kubelet gave from it.
func expect(m state.NUMANodeMap, list []state.Block, uid, container string) error {
	for _, b := range list {
		for _, id := range b.NUMAAffinity {
			switch {
			case m[id] == nil:
				return fmt.Errorf("[memorymanager] (pod: %s, container: %s) the memory assignment uses the NUMA that "+
					"does not exist", uid, container)
			case m[id].MemoryMap[b.Type] == nil:
				return fmt.Errorf("[memorymanager] (pod: %s, container: %s) the memory assignment uses memory "+
					"resource that does not exist", uid, container)
			}
		}
		take(m, b.NUMAAffinity, b.Type, b.Size)
	}
	return nil
}

// sameMachine compares sizes and reservations of each node, and what is given away of each group.
func sameMachine(a, b state.NUMANodeMap) bool {
	if len(a) != len(b) {
		return false
	}
	for id, x := range a {
		y := b[id]
		if y == nil || x.NumberOfAssignments != y.NumberOfAssignments || len(x.MemoryMap) != len(y.MemoryMap) ||
			topologymanager.MaskOf(x.Cells...) != topologymanager.MaskOf(y.Cells...) || len(x.Cells) != len(y.Cells) {
			return false
		}
		for name, t := range x.MemoryMap {
			u := y.MemoryMap[name]
			if u == nil || t.TotalMemSize != u.TotalMemSize || t.SystemReserved != u.SystemReserved ||
				t.Allocatable != u.Allocatable || group(a, x.Cells, name) != group(b, x.Cells, name) {
				return false
			}
		}
	}
	return true
}

// group is what the nodes of a group have free and given away together.
func group(m state.NUMANodeMap, nodes []int, name v1.ResourceName) (sum [2]uint64) {
	for _, id := range nodes {
		if m[id] != nil && m[id].MemoryMap[name] != nil {
			sum[0] += m[id].MemoryMap[name].Free
			sum[1] += m[id].MemoryMap[name].Reserved
		}
	}
	return sum
}
