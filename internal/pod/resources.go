package pod

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// Requests is what the Pod asks of its node: overhead plus the larger of (app containers +
// sidecars) and, over all init containers, (that container + sidecars declared before it);
// Pod-level resources replace the sums they name. While a resize is under way the larger of spec,
// allocated and actuated counts (docs: sidecar containers "resource sharing"; in-place resize).
// Claims on node resources are not counted.
func Requests(p *v1.Pod) v1.ResourceList {
	return resource.PodRequests(p, options())
}

// RequestsWith is Requests with missing container requests replaced by the given values.
func RequestsWith(p *v1.Pod, missing v1.ResourceList) v1.ResourceList {
	o := options()
	o.NonMissingContainerRequests = missing
	return resource.PodRequests(p, o)
}

// Limits is the same arithmetic over limits; overhead is added only to limits that are set. A
// resource missing in one container's limits is in the sum of the others: see HasLimit before
// treating it as a bound of the whole Pod.
func Limits(p *v1.Pod) v1.ResourceList {
	return resource.PodLimits(p, options())
}

// HasLimit tells whether the whole Pod is bounded for the resource: a Pod-level limit, or every app
// container and every sidecar names one.
func HasLimit(p *v1.Pod, name v1.ResourceName) bool {
	if p.Spec.Resources != nil && resource.IsSupportedPodLevelResource(name) {
		if q, ok := p.Spec.Resources.Limits[name]; ok && !q.IsZero() {
			return true
		}
	}
	bounded := func(c *v1.Container) bool {
		q, ok := c.Resources.Limits[name]
		return ok && !q.IsZero()
	}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; IsSidecar(c) && !bounded(c) {
			return false
		}
	}
	for i := range p.Spec.Containers {
		if !bounded(&p.Spec.Containers[i]) {
			return false
		}
	}
	return true
}

// HasPodLevelRequests tells whether spec.resources.requests names a resource it may name (cpu,
// memory, huge pages).
func HasPodLevelRequests(p *v1.Pod) bool { return resource.IsPodLevelRequestsSet(p) }

// HasPodLevelResources tells whether spec.resources names a request or limit it may name.
func HasPodLevelResources(p *v1.Pod) bool { return resource.IsPodLevelResourcesSet(p) }

func options() resource.PodResourcesOptions {
	return resource.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}
}
