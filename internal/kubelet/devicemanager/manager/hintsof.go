package manager

import (
	"slices"

	"github.com/gantry-project/gantry/internal/kubelet/devicemanager"
	"github.com/gantry-project/gantry/internal/kubelet/topologymanager"
)

// hintRequest is all that the hints for one resource depend on.
type hintRequest struct {
	Required int
	Devices  devicemanager.Resource
	InUse    devicemanager.Set // of the resource, by any container
	Has      devicemanager.Set // what the container, or the Pod, has already
	Reusable devicemanager.Set // of ended init containers of the Pod
	// NUMA nodes of the machine; nodes that plugins name beside them are ignored
	MachineNodes []int
}

// hintsOf are the sets of NUMA nodes that devices could come from. Nil: the devices are close to no
// node, it does not matter. Empty: there are not enough.
func hintsOf(r hintRequest) []topologymanager.Hint {
	if !r.Devices.Aligned() {
		return nil
	}
	available, reusable := r.Devices.Healthy().Minus(r.InUse, r.Reusable), r.Reusable
	if len(r.Has) > 0 {
		if len(r.Has) != r.Required {
			return []topologymanager.Hint{}
		}
		available, reusable = r.Has, nil
	} else if len(available)+len(reusable) < r.Required {
		return []topologymanager.Hint{}
	}
	nodes := r.nodes()
	out, smallest := []topologymanager.Hint{}, len(nodes)
	for mask := range topologymanager.Masks(nodes) {
		all := 0
		for id := range r.Devices.Devices {
			if r.in(id, mask) {
				all++
			}
		}
		if all >= r.Required {
			smallest = min(smallest, mask.Count())
		}
		if r.fits(mask, available, reusable) {
			out = append(out, topologymanager.Hint{NUMANodeAffinity: mask})
		}
	}
	for i := range out {
		out[i].Preferred = out[i].NUMANodeAffinity.Count() == smallest
	}
	return out
}

// fits tells whether the nodes have enough devices, and all that are to be taken over.
func (r hintRequest) fits(mask topologymanager.Mask, available, reusable devicemanager.Set) bool {
	matching := 0
	for id := range reusable {
		if len(r.Devices.Devices[id].Nodes) == 0 {
			continue
		}
		if !r.in(id, mask) {
			return false
		}
		matching++
	}
	for id := range available {
		if r.in(id, mask) {
			matching++
		}
	}
	return matching >= r.Required
}

func (r hintRequest) in(id string, mask topologymanager.Mask) bool {
	return slices.ContainsFunc(r.Devices.Devices[id].Nodes, func(n int64) bool { return mask.IsSet(int(n)) })
}

// nodes are the machine's nodes that have devices; all of them when none of these has any.
func (r hintRequest) nodes() []int {
	var out []int
	for _, n := range r.Devices.Nodes() {
		if slices.Contains(r.MachineNodes, int(n)) {
			out = append(out, int(n))
		}
	}
	if len(out) == 0 {
		return r.MachineNodes
	}
	return out
}
