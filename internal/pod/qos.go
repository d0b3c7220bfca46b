package pod

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// qosResources are the only ones that decide the class.
var qosResources = [...]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}

// QOS computes the class from the spec (docs: Pod quality of service classes). Zero quantities
// count as absent. Guaranteed: every container has cpu and memory limits and requests equal limits.
// BestEffort: no container has any request or limit. Burstable: the rest. With Pod-level resources
// these alone decide.
func QOS(p *v1.Pod) v1.PodQOSClass {
	if HasPodLevelResources(p) {
		return classOf([]v1.ResourceRequirements{*p.Spec.Resources})
	}
	all := make([]v1.ResourceRequirements, 0, len(p.Spec.Containers)+len(p.Spec.InitContainers))
	for i := range p.Spec.Containers {
		all = append(all, p.Spec.Containers[i].Resources)
	}
	for i := range p.Spec.InitContainers {
		all = append(all, p.Spec.InitContainers[i].Resources)
	}
	return classOf(all)
}

func classOf(all []v1.ResourceRequirements) v1.PodQOSClass {
	var requests, limits [len(qosResources)]resource.Quantity
	requested, guaranteed := false, true
	for _, r := range all {
		for i, name := range qosResources {
			req, lim := r.Requests[name], r.Limits[name]
			if req.Sign() > 0 {
				requested = true
				requests[i].Add(req)
			}
			if lim.Sign() > 0 {
				requested = true
				limits[i].Add(lim)
			} else {
				guaranteed = false
			}
		}
	}
	switch {
	case !requested:
		return v1.PodQOSBestEffort
	case guaranteed && requests[0].Cmp(limits[0]) == 0 && requests[1].Cmp(limits[1]) == 0:
		return v1.PodQOSGuaranteed
	}
	return v1.PodQOSBurstable
}
