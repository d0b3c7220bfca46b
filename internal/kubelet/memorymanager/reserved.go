package memorymanager

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/machine"
	"github.com/gantry-project/gantry/internal/kubelet/memorymanager/state"
)

// reservation is what of each node the system keeps.
type reservation map[int]amounts

// reservedByNode reads reservedMemory, which has to name nodes of this machine and to come, for
// each kind, to what the node keeps from Pods in all. The errors are upstream's.
func reservedByNode(info machine.Info, whole v1.ResourceList, list []kubelet.MemoryReservation) (reservation, error) {
	out, sum := reservation{}, map[v1.ResourceName]apiresource.Quantity{}
	for _, r := range list {
		if !slices.Contains(info.NodeIDs(), int(r.NumaNode)) {
			return nil, fmt.Errorf("the reserved memory configuration references a NUMA node %d that does not exist "+
				"on this machine", r.NumaNode)
		}
		for name, q := range r.Limits {
			total := sum[name]
			total.Add(q)
			sum[name] = total
			n, ok := q.AsInt64()
			if !ok || n < 0 {
				return nil, errors.New("could not covert a variable of type Quantity to int64")
			}
			if out[int(r.NumaNode)] == nil {
				out[int(r.NumaNode)] = amounts{}
			}
			out[int(r.NumaNode)][name] = uint64(n)
		}
	}
	kinds := slices.Collect(maps.Keys(sum))
	for name := range whole {
		if isMemory(name) && !slices.Contains(kinds, name) {
			kinds = append(kinds, name)
		}
	}
	slices.Sort(kinds)
	for _, name := range kinds {
		have, want := sum[name], whole[name]
		if have.Cmp(want) != 0 {
			return nil, fmt.Errorf("the total amount %q of type %q is not equal to the value %q determined by Node "+
				"Allocatable feature", have.String(), name, want.String())
		}
	}
	return out, nil
}

// newMachine is the machine's memory when nobody has any. More reserved than there is leaves none.
func newMachine(info machine.Info, r reservation) state.NUMANodeMap {
	out := state.NUMANodeMap{}
	for _, n := range info.Nodes {
		s := &state.NUMANodeState{MemoryMap: map[v1.ResourceName]*state.MemoryTable{}, Cells: []int{n.ID}}
		var inPages uint64
		for _, h := range n.HugePages {
			name, size := machine.HugePagesName(h.PageSize), h.Count*h.PageSize*1024
			s.MemoryMap[name] = table(size, size, r[n.ID][name])
			inPages += size
		}
		s.MemoryMap[v1.ResourceMemory] = table(n.Memory, less(n.Memory, inPages), r[n.ID][v1.ResourceMemory])
		out[n.ID] = s
	}
	return out
}

func table(total, usable, reserved uint64) *state.MemoryTable {
	free := less(usable, reserved)
	return &state.MemoryTable{TotalMemSize: total, SystemReserved: reserved, Allocatable: free, Free: free}
}

func less(a, b uint64) uint64 {
	if a < b {
		return 0
	}
	return a - b
}
