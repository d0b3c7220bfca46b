package volume

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	sum "k8s.io/component-helpers/resource"
)

// MemoryLimit is how big a volume in memory may grow, in bytes: its sizeLimit, the Pod's memory
// limit, or what the node has for Pods, whichever is least; 0 when none is known.
func MemoryLimit(pod *v1.Pod, sizeLimit *resource.Quantity, allocatable v1.ResourceList) int64 {
	bound := allocatable.Memory().Value()
	lower := func(n int64) {
		if n > 0 && (bound == 0 || n < bound) {
			bound = n
		}
	}
	limits := sum.PodLimits(pod, sum.PodResourcesOptions{})
	if allContainersLimited(pod) {
		lower(limits.Memory().Value())
	}
	if sizeLimit != nil {
		lower(sizeLimit.Value())
	}
	return bound
}

// allContainersLimited: the sum of limits bounds the Pod only when no container is without one.
func allContainersLimited(pod *v1.Pod) bool {
	if r := pod.Spec.Resources; r != nil && !r.Limits.Memory().IsZero() {
		return true
	}
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Resources.Limits.Memory().IsZero() {
			return false
		}
	}
	return true
}
