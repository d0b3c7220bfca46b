package devicemanager

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/checkpoint"
	"github.com/gantry-project/gantry/internal/pod"
)

// NodeWithoutTopology stands in DevicesPerNUMA for devices that are close to no NUMA node.
const NodeWithoutTopology = -1

// Allocation is what one container has of one resource.
type Allocation struct {
	DeviceIDs checkpoint.DevicesPerNUMA
	Response  *pluginapi.ContainerAllocateResponse // the plugin's answer; nil while it is being asked
}

// PodDevices is what containers have: by Pod, container and resource.
type PodDevices map[types.UID]map[string]map[string]Allocation

// Insert notes what a container has.
func (p PodDevices) Insert(uid types.UID, container, resource string, a Allocation) {
	if p[uid] == nil {
		p[uid] = map[string]map[string]Allocation{}
	}
	if p[uid][container] == nil {
		p[uid][container] = map[string]Allocation{}
	}
	p[uid][container][resource] = a
}

// Remove takes a note back.
func (p PodDevices) Remove(uid types.UID, container, resource string) {
	delete(p[uid][container], resource)
	if len(p[uid][container]) == 0 {
		delete(p[uid], container)
	}
	if len(p[uid]) == 0 {
		delete(p, uid)
	}
}

// Container are the ids that a container has of a resource; nil when it was given none.
func (p PodDevices) Container(uid types.UID, container, resource string) Set {
	a, ok := p[uid][container][resource]
	if !ok {
		return nil
	}
	return SetOf(a.DeviceIDs.Devices()...)
}

// Pod are the ids that all containers of a Pod have of a resource.
func (p PodDevices) Pod(uid types.UID, resource string) Set {
	out := Set{}
	for container := range p[uid] {
		out = out.union(p.Container(uid, container, resource))
	}
	return out
}

// InUse are the ids of a resource that any container has.
func (p PodDevices) InUse(resource string) Set {
	out := Set{}
	for uid := range p {
		maps.Copy(out, p.Pod(uid, resource))
	}
	return out
}

// Resources are the names of all resources that containers have something of.
func (p PodDevices) Resources() map[string]bool {
	out := map[string]bool{}
	for _, containers := range p {
		for _, resources := range containers {
			for name := range resources {
				out[name] = true
			}
		}
	}
	return out
}

// Users are the Pods that have one of the ids of a resource, in order.
func (p PodDevices) Users(resource string, ids []string) []types.UID {
	var out []types.UID
	for uid := range p {
		if has := p.Pod(uid, resource); slices.ContainsFunc(ids, func(id string) bool { return has[id] }) {
			out = append(out, uid)
		}
	}
	slices.Sort(out)
	return out
}

// Reusable are the devices that a container may take over from init containers of its Pod: these
// have ended when it starts. What a sidecar or an app container has is nobody else's.
func (p PodDevices) Reusable(of *v1.Pod, resource string) Set {
	out, kept := Set{}, Set{}
	for i := range of.Spec.InitContainers {
		c := &of.Spec.InitContainers[i]
		if pod.IsSidecar(c) {
			maps.Copy(kept, p.Container(of.UID, c.Name, resource))
		} else {
			maps.Copy(out, p.Container(of.UID, c.Name, resource))
		}
	}
	for i := range of.Spec.Containers {
		maps.Copy(kept, p.Container(of.UID, of.Spec.Containers[i].Name, resource))
	}
	return out.Minus(kept)
}

// PerNUMA orders ids by the NUMA nodes of their devices.
func (r Resource) PerNUMA(ids []string) checkpoint.DevicesPerNUMA {
	out := checkpoint.DevicesPerNUMA{}
	for _, id := range ids {
		nodes := r.Devices[id].Nodes
		if len(nodes) == 0 {
			nodes = []int64{NodeWithoutTopology}
		}
		for _, n := range nodes {
			out[n] = append(out[n], id)
		}
	}
	return out
}

// Totals is how many devices of each resource all Pods have.
func (p PodDevices) Totals() v1.ResourceList {
	out := v1.ResourceList{}
	for name := range p.Resources() {
		out[v1.ResourceName(name)] = *resource.NewQuantity(int64(len(p.InUse(name))), resource.DecimalSI)
	}
	return out
}
