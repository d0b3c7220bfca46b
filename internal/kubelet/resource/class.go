package resource

import v1 "k8s.io/api/core/v1"

// classOf computes the QoS class from cpu and memory alone: none set is BestEffort, limit = request > 0 everywhere is Guaranteed, the rest Burstable.
// Pod-level resources, when set, stand for all containers.
func classOf(pod *v1.Pod) v1.PodQOSClass {
	asks := []v1.ResourceRequirements{}
	if r := pod.Spec.Resources; r != nil && (anyCompute(r.Requests) || anyCompute(r.Limits)) {
		asks = append(asks, *r)
	} else {
		for i := range pod.Spec.InitContainers {
			asks = append(asks, pod.Spec.InitContainers[i].Resources)
		}
		for i := range pod.Spec.Containers {
			asks = append(asks, pod.Spec.Containers[i].Resources)
		}
	}
	some, all := false, true
	for _, a := range asks {
		some = some || anyCompute(a.Requests) || anyCompute(a.Limits)
		all = all && exact(a, v1.ResourceCPU) && exact(a, v1.ResourceMemory)
	}
	switch {
	case !some:
		return v1.PodQOSBestEffort
	case all:
		return v1.PodQOSGuaranteed
	}
	return v1.PodQOSBurstable
}

func anyCompute(l v1.ResourceList) bool {
	return positive(l, v1.ResourceCPU) || positive(l, v1.ResourceMemory)
}

// exact: a limit, and a request that is equal or left out (the API server fills it in from the limit).
func exact(r v1.ResourceRequirements, name v1.ResourceName) bool {
	if !positive(r.Limits, name) {
		return false
	}
	if !positive(r.Requests, name) {
		return true
	}
	request, limit := r.Requests[name], r.Limits[name]
	return request.Cmp(limit) == 0
}
