package snapshot

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/pod/fit"
)

// Requests is what the Pod requests of a node, overhead and resizes included: CPU in millicores,
// all else in bytes or pieces.
func Requests(p *v1.Pod) fit.Vector {
	if hasOnlyCommonResources(p) {
		return sumRequests(p)
	}
	return fit.VectorOf(pod.Requests(p))
}

// RequestsNonZero is Requests with DefaultMilliCPU and DefaultMemory for containers that request
// none; with Pod-level requests, for resources these do not name.
func RequestsNonZero(p *v1.Pod) fit.Vector {
	if hasOnlyCommonResources(p) {
		return withDefaults(p, sumRequests(p))
	}
	missing := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(DefaultMilliCPU, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(DefaultMemory, resource.BinarySI),
	}
	if pod.HasPodLevelRequests(p) {
		for name := range pod.Requests(p) {
			delete(missing, name)
		}
	}
	return fit.VectorOf(pod.RequestsWith(p, missing))
}

// RequestsAndNonZero returns Requests and RequestsNonZero of the Pod in one pass, for whoever keeps
// both of each Pod (NodeInfo does).
func RequestsAndNonZero(p *v1.Pod) (requests, nonZero fit.Vector) {
	if !hasOnlyCommonResources(p) {
		return Requests(p), RequestsNonZero(p)
	}
	requests = sumRequests(p)
	return requests, withDefaults(p, requests)
}

// hasOnlyCommonResources tells whether the Pod's requests are the sum of its containers': most Pods
// before they run. Quantities with fractions of what is accounted are added up before they are
// rounded, which only the library does.
func hasOnlyCommonResources(p *v1.Pod) bool {
	if len(p.Spec.InitContainers) > 0 || p.Spec.Overhead != nil || p.Spec.Resources != nil ||
		len(p.Status.ContainerStatuses) > 0 || p.Status.Resources != nil {
		return false
	}
	if pod.Condition(p, v1.PodResizePending) != nil {
		return false
	}
	if len(p.Spec.Containers) == 1 {
		return true
	}
	for i := range p.Spec.Containers {
		for name, q := range p.Spec.Containers[i].Resources.Requests {
			if !isWholeQuantity(name, &q) {
				return false
			}
		}
	}
	return true
}

func isWholeQuantity(name v1.ResourceName, q *resource.Quantity) bool {
	if name == v1.ResourceCPU {
		return q.Cmp(*resource.NewMilliQuantity(q.MilliValue(), resource.DecimalSI)) == 0
	}
	return q.Cmp(*resource.NewQuantity(q.Value(), resource.BinarySI)) == 0
}

func sumRequests(p *v1.Pod) (v fit.Vector) {
	for i := range p.Spec.Containers {
		v.AddList(p.Spec.Containers[i].Resources.Requests)
	}
	return v
}

// withDefaults adds to a Pod's requests what its containers count as that request nothing.
func withDefaults(p *v1.Pod, v fit.Vector) fit.Vector {
	for i := range p.Spec.Containers {
		list := p.Spec.Containers[i].Resources.Requests
		if _, ok := list[v1.ResourceCPU]; !ok {
			v.MilliCPU += DefaultMilliCPU
		}
		if _, ok := list[v1.ResourceMemory]; !ok {
			v.Memory += DefaultMemory
		}
	}
	return v
}
