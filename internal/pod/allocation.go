package pod

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/component-helpers/resource"
)

// Allocation is what the containers of a Pod and the Pod as a whole ask for and may use: the part
// of the spec that a resize changes (KEP-1287, KEP-5419).
type Allocation struct {
	Pod        *v1.ResourceRequirements           `json:"pod,omitempty"` // spec.resources
	Containers map[string]v1.ResourceRequirements `json:"containers"`    // init and app containers by name
}

// AllocationOf reads the sizes of a spec.
func AllocationOf(p *v1.Pod) Allocation {
	s := Allocation{Pod: p.Spec.Resources.DeepCopy(), Containers: make(map[string]v1.ResourceRequirements,
		len(p.Spec.Containers)+len(p.Spec.InitContainers))}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			s.Containers[list[i].Name] = *list[i].Resources.DeepCopy()
		}
	}
	return s
}

// Matches tells whether the Pod's spec has these sizes. Containers that the sizes do not name fit.
func (s Allocation) Matches(p *v1.Pod) bool {
	if !equality.Semantic.DeepEqual(s.Pod, p.Spec.Resources) {
		return false
	}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if r, ok := s.Containers[list[i].Name]; ok && !equality.Semantic.DeepEqual(r, list[i].Resources) {
				return false
			}
		}
	}
	return true
}

// ApplyTo is the Pod with these sizes: the Pod itself if it has them, else a copy.
func (s Allocation) ApplyTo(p *v1.Pod) *v1.Pod {
	if s.Containers == nil || s.Matches(p) {
		return p
	}
	out := *p
	out.Spec.Resources = s.Pod
	out.Spec.InitContainers, out.Spec.Containers = s.applyToList(p.Spec.InitContainers),
		s.applyToList(p.Spec.Containers)
	return &out
}

func (s Allocation) applyToList(list []v1.Container) []v1.Container {
	out := make([]v1.Container, len(list))
	copy(out, list)
	for i := range out {
		if r, ok := s.Containers[out[i].Name]; ok {
			out[i].Resources = r
		}
	}
	return out
}

// With is the sizes with one container's changed; the receiver stays.
func (s Allocation) With(container string, r v1.ResourceRequirements) Allocation {
	out := Allocation{Pod: s.Pod, Containers: make(map[string]v1.ResourceRequirements, len(s.Containers)+1)}
	for name, have := range s.Containers {
		out.Containers[name] = have
	}
	out.Containers[container] = r
	return out
}

// Totals is what a spec asks for and allows as a whole, whatever a status says.
func Totals(p *v1.Pod) v1.ResourceRequirements {
	return v1.ResourceRequirements{
		Requests: resource.PodRequests(p, resource.PodResourcesOptions{}),
		Limits:   resource.PodLimits(p, resource.PodResourcesOptions{}),
	}
}

// ResizePolicy is what a change of the resource does to a running container; NotRequired unless the
// spec says otherwise.
func ResizePolicy(c *v1.Container, name v1.ResourceName) v1.ResourceResizeRestartPolicy {
	for _, p := range c.ResizePolicy {
		if p.ResourceName == name {
			return p.RestartPolicy
		}
	}
	return v1.NotRequired
}
