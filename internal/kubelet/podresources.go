package kubelet

import (
	v1 "k8s.io/api/core/v1"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/utils/cpuset"

	"github.com/gantry-project/gantry/internal/kubelet/containermanager"
	"github.com/gantry-project/gantry/internal/kubelet/memorymanager/state"
	"github.com/gantry-project/gantry/internal/kubelet/podresources"
)

// podResourcesProviders are who knows what the PodResources API shows.
func (k *Kubelet) podResourcesProviders() podresources.Providers {
	p := podresources.Providers{Pods: k.activePods, Called: k.opts.Dependencies.Metrics.PodResourcesCalled}
	if k.containers != nil {
		own := ownResources{k.containers}
		p.CPUs, p.Memory = own, own
	}
	return p
}

// ownResources are the CPUs and the memory that containers have of their own, as the API shows
// them.
type ownResources struct{ containers *containermanager.Manager }

// PodCPUs are the CPUs that a Pod was given as a whole; those that its containers have for
// themselves are among them.
func (r ownResources) PodCPUs(p *v1.Pod) []int64 { return cpuIDs(r.containers.CPU.GetPodCPUs(p.UID)) }

// PodMemory is the memory that a Pod was given as a whole.
func (r ownResources) PodMemory(p *v1.Pod) []*podresourcesapi.ContainerMemory {
	return memoryBlocks(r.containers.Memory.GetPodMemory(p.UID))
}

// ContainerCPUs are the CPUs that only this container has; those that the containers of a Pod share
// are the Pod's.
func (r ownResources) ContainerCPUs(p *v1.Pod, c *v1.Container) []int64 {
	if !r.containers.CPU.HasExclusiveCPUs(p, c) {
		return nil
	}
	return cpuIDs(r.containers.CPU.GetExclusiveCPUs(p.UID, c.Name))
}

// AllocatableCPUs are those that can be given away.
func (r ownResources) AllocatableCPUs() []int64 { return cpuIDs(r.containers.CPU.GetAllocatableCPUs()) }

func cpuIDs(set cpuset.CPUSet) (out []int64) {
	for _, id := range set.List() {
		out = append(out, int64(id))
	}
	return out
}

// ContainerMemory is the memory that a container has of its own.
func (r ownResources) ContainerMemory(p *v1.Pod, c *v1.Container) []*podresourcesapi.ContainerMemory {
	if !r.containers.Memory.HasOwnMemory(p, c) {
		return nil
	}
	return memoryBlocks(r.containers.Memory.GetMemory(p.UID, c.Name))
}

// AllocatableMemory is what can be given away.
func (r ownResources) AllocatableMemory() []*podresourcesapi.ContainerMemory {
	return memoryBlocks(r.containers.Memory.GetAllocatableMemory())
}

func memoryBlocks(list []state.Block) (out []*podresourcesapi.ContainerMemory) {
	for _, b := range list {
		m := &podresourcesapi.ContainerMemory{MemoryType: string(b.Type), Size: b.Size,
			Topology: &podresourcesapi.TopologyInfo{}}
		for _, node := range b.NUMAAffinity {
			m.Topology.Nodes = append(m.Topology.Nodes, &podresourcesapi.NUMANode{ID: int64(node)})
		}
		out = append(out, m)
	}
	return out
}
