package eviction

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Space is what files take.
type Space struct{ Bytes, Inodes int64 }

// ContainerUse is what a container takes; nil parts were not measured.
type ContainerUse struct {
	Name        string
	Memory      *int64 // working set in bytes
	Layer, Logs *Space
}

// PodUse is what a Pod takes; nil and missing parts were not measured and count as nothing.
type PodUse struct {
	Memory     *int64 // working set in bytes
	Processes  uint64
	Containers []ContainerUse
	Volumes    map[string]Space
}

// use is what of a Pod counts for a signal.
type use struct {
	amount func(*v1.Pod, PodUse) resource.Quantity
	// request is what a Pod may take before it exceeds; subtracted is what of its use is forgiven
	// when Pods are compared. Both are zero for what cannot be requested.
	request, subtracted v1.ResourceName
	neverExceeds        bool // priority alone comes before the amount
}

func memoryUse(Disks) use {
	return use{request: v1.ResourceMemory, subtracted: v1.ResourceMemory,
		amount: func(_ *v1.Pod, u PodUse) resource.Quantity { return memoryQuantity(u.Memory) }}
}

func processUse(Disks) use {
	return use{request: ResourcePIDs, subtracted: ResourcePIDs, neverExceeds: true,
		amount: func(_ *v1.Pod, u PodUse) resource.Quantity {
			return *resource.NewQuantity(int64(u.Processes), resource.DecimalSI)
		}}
}

// diskUse counts parts of what a Pod takes on disks. A request of ephemeral storage is forgiven for
// inodes too, as upstream does.
func diskUse(what v1.ResourceName, parts Part) use {
	return use{request: what, subtracted: v1.ResourceEphemeralStorage,
		amount: func(p *v1.Pod, u PodUse) resource.Quantity {
			sum := diskSpace(p, u, parts)
			if what == ResourceInodes {
				return *resource.NewQuantity(sum.Inodes, resource.DecimalSI)
			}
			return *resource.NewQuantity(sum.Bytes, resource.BinarySI)
		}}
}

func nodeFsUse(what v1.ResourceName) func(Disks) use {
	return func(d Disks) use {
		if d.DedicatedImageFs && !d.SplitImageFs {
			return diskUse(what, Logs|LocalVolumes)
		}
		return diskUse(what, WritableLayers|Logs|LocalVolumes)
	}
}

func imageFsUse(what v1.ResourceName) func(Disks) use {
	return func(d Disks) use {
		switch {
		case d.DedicatedImageFs && d.SplitImageFs:
			return diskUse(what, 0) // nothing of a Pod is on it
		case d.DedicatedImageFs:
			return diskUse(what, WritableLayers)
		}
		return diskUse(what, WritableLayers|Logs|LocalVolumes)
	}
}

func containerFsUse(what v1.ResourceName) func(Disks) use {
	return func(d Disks) use {
		if d.DedicatedImageFs && !d.SplitImageFs {
			return imageFsUse(what)(d)
		}
		return nodeFsUse(what)(d)
	}
}

func diskSpace(p *v1.Pod, u PodUse, parts Part) Space {
	var sum Space
	add := func(s *Space) {
		if s != nil {
			sum.Bytes, sum.Inodes = sum.Bytes+s.Bytes, sum.Inodes+s.Inodes
		}
	}
	for _, c := range u.Containers {
		if parts&WritableLayers != 0 {
			add(c.Layer)
		}
		if parts&Logs != 0 {
			add(c.Logs)
		}
	}
	if parts&LocalVolumes == 0 {
		return sum
	}
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; isLocal(v) {
			if s, measured := u.Volumes[v.Name]; measured {
				add(&s)
			}
		}
	}
	return sum
}

// isLocal tells whether a volume's files are on the node's own disk.
func isLocal(v *v1.Volume) bool {
	return v.HostPath != nil || v.GitRepo != nil || v.ConfigMap != nil ||
		v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumDefault
}

func memoryQuantity(n *int64) resource.Quantity {
	if n == nil {
		return resource.Quantity{Format: resource.BinarySI}
	}
	return *resource.NewQuantity(*n, resource.BinarySI)
}

// podRequest is a Pod's request as evictions count it: Pod-level resources, once any is set, stand
// for all containers', and overhead counts where something is requested.
func podRequest(p *v1.Pod, name v1.ResourceName) resource.Quantity {
	q := resource.Quantity{Format: resource.BinarySI}
	q.Add(resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{
		SkipContainerLevelResources: resourcehelper.IsPodLevelResourcesSet(p), ExcludeOverhead: true})[name])
	if over, ok := p.Spec.Overhead[name]; ok && !q.IsZero() {
		q.Add(over)
	}
	return q
}
