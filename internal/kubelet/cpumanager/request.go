package cpumanager

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/pod"
)

// integral tells whether a quantity is a whole number of CPUs.
func integral(q apiresource.Quantity) bool { return q.Value()*1000 == q.MilliValue() }

// request is how many exclusive CPUs a container asks for: those of a Guaranteed Pod, if they are
// whole. podLevel: in a Pod with pod-level resources, only containers that are guaranteed
// themselves do.
func request(p *v1.Pod, c *v1.Container, podLevel bool) int {
	q := c.Resources.Requests[v1.ResourceCPU]
	switch {
	case resource.QOS(p) != v1.PodQOSGuaranteed, !integral(q):
		return 0
	case podLevel && pod.HasPodLevelResources(p) && !resource.GuaranteedContainer(c):
		return 0
	}
	return int(q.Value())
}

// podRequest is how many CPUs of their own the containers of a Pod hold at most at one time.
func podRequest(p *v1.Pod, podLevel bool) int {
	if podLevel && pod.HasPodLevelResources(p) {
		q := p.Spec.Resources.Requests[v1.ResourceCPU]
		if resource.QOS(p) != v1.PodQOSGuaranteed || !integral(q) {
			return 0
		}
		return int(q.Value())
	}
	sidecars, starting, running := 0, 0, 0
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		n := request(p, c, podLevel)
		if pod.IsSidecar(c) {
			sidecars += n
		} else {
			starting = max(starting, sidecars+n)
		}
	}
	for i := range p.Spec.Containers {
		running += request(p, &p.Spec.Containers[i], podLevel)
	}
	return max(starting, running+sidecars)
}

// sharedPool tells whether the containers of a Pod with pod-level resources that have no CPUs for
// themselves are left any. The errors are upstream's.
func sharedPool(p *v1.Pod) error {
	total, exclusive, shared := podRequest(p, true), 0, false
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		n := request(p, c, true)
		switch {
		case !pod.IsSidecar(c) && n == 0 && exclusive >= total:
			return errors.New("pod rejected, pod has shared init containers but no cpus available for them")
		case pod.IsSidecar(c):
			shared = shared || n == 0
			exclusive += n
		}
	}
	for i := range p.Spec.Containers {
		n := request(p, &p.Spec.Containers[i], true)
		shared = shared || n == 0
		exclusive += n
	}
	if shared && exclusive >= total {
		return errors.New("pod rejected, sum of exclusive container cpu requests equals pod budget, leaving no cpus " +
			"for shared containers")
	}
	return nil
}
