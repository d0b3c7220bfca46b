package manager

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gantry-project/gantry/internal/kubelet/devicemanager"
)

// ContainerDevices is what a container has, for the PodResources API: an entry for each device and
// NUMA node of it.
func (m *Manager) ContainerDevices(uid types.UID, container string) []*podresourcesapi.ContainerDevices {
	var out []*podresourcesapi.ContainerDevices
	has := m.Devices(uid, container)
	for _, resource := range slices.Sorted(maps.Keys(has)) {
		perNUMA := has[resource].DeviceIDs
		for _, node := range slices.Sorted(maps.Keys(perNUMA)) {
			for _, id := range perNUMA[node] {
				out = append(out, containerDevices(resource, id, node))
			}
		}
	}
	return out
}

// AllocatableDevices are all healthy devices in the same form.
func (m *Manager) AllocatableDevices() []*podresourcesapi.ContainerDevices {
	var out []*podresourcesapi.ContainerDevices
	all := m.Allocatable()
	for _, resource := range slices.Sorted(maps.Keys(all)) {
		for _, id := range slices.Sorted(maps.Keys(all[resource])) {
			nodes := all[resource][id].Nodes
			if len(nodes) == 0 {
				nodes = []int64{devicemanager.NodeWithoutTopology}
			}
			for _, node := range nodes {
				out = append(out, containerDevices(resource, id, node))
			}
		}
	}
	return out
}

func containerDevices(resource, id string, node int64) *podresourcesapi.ContainerDevices {
	d := &podresourcesapi.ContainerDevices{ResourceName: resource, DeviceIds: []string{id}}
	if node != devicemanager.NodeWithoutTopology {
		d.Topology = &podresourcesapi.TopologyInfo{Nodes: []*podresourcesapi.NUMANode{{ID: node}}}
	}
	return d
}
