package snapshot

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/pod/fit"
)

// Ask is what the Pod requests of a node.
func Ask(p *v1.Pod) fit.Vector {
	if isPlain(p) {
		return sum(p)
	}
	return fit.VectorOf(pod.Requests(p))
}

// AskNonZero is Ask with DefaultMilliCPU and DefaultMemory for containers that request none; with Pod-level requests, for resources these do not name.
func AskNonZero(p *v1.Pod) fit.Vector {
	if isPlain(p) {
		return withDefaults(p, sum(p))
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

// Asks is Ask and AskNonZero.
func Asks(p *v1.Pod) (ask, non0 fit.Vector) {
	if !isPlain(p) {
		return Ask(p), AskNonZero(p)
	}
	ask = sum(p)
	return ask, withDefaults(p, ask)
}

// isPlain tells whether the Pod's requests are the sum of its containers': most Pods before they run. Quantities with fractions of what is accounted are added up
// before they are rounded, which only the library does.
func isPlain(p *v1.Pod) bool {
	if len(p.Spec.InitContainers) > 0 || p.Spec.Overhead != nil || p.Spec.Resources != nil || len(p.Status.ContainerStatuses) > 0 || p.Status.Resources != nil {
		return false
	}
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == v1.PodResizePending {
			return false
		}
	}
	if len(p.Spec.Containers) == 1 {
		return true
	}
	for i := range p.Spec.Containers {
		for name, q := range p.Spec.Containers[i].Resources.Requests {
			if !isWhole(name, &q) {
				return false
			}
		}
	}
	return true
}

func isWhole(name v1.ResourceName, q *resource.Quantity) bool {
	if name == v1.ResourceCPU {
		return q.Cmp(*resource.NewMilliQuantity(q.MilliValue(), resource.DecimalSI)) == 0
	}
	return q.Cmp(*resource.NewQuantity(q.Value(), resource.BinarySI)) == 0
}

func sum(p *v1.Pod) (v fit.Vector) {
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
