package topologymanager

import v1 "k8s.io/api/core/v1"

// Hint is a set of NUMA nodes that a resource could be allocated from.
type Hint struct {
	NUMANodeAffinity Mask // empty: any
	Preferred        bool // no smaller set would do on this machine, were it all free
}

// HintProvider is the manager of a resource. Its methods are called one at a time.
type HintProvider interface {
	// GetTopologyHints are the sets of nodes, by resource, that the container could be given its
	// share from. No entry, or a nil list: it does not matter. An empty list: there is none.
	GetTopologyHints(pod *v1.Pod, c *v1.Container) map[string][]Hint
	// GetPodTopologyHints are those for all containers of the Pod together.
	GetPodTopologyHints(pod *v1.Pod) map[string][]Hint
	// Allocate gives the container its share, by what the Manager's GetAffinity says. A second call
	// for the same container changes nothing. An error that is a *reason.Refusal is the reason why
	// the Pod is refused; any other becomes an UnexpectedAdmissionError.
	Allocate(pod *v1.Pod, c *v1.Container) error
}

// PodAllocator is a HintProvider that gives a Pod with pod-level resources its share as a whole,
// which the pod scope asks for (PodLevelResourceManagers).
type PodAllocator interface {
	// AllocatePod does for all containers of the Pod what Allocate does for one.
	AllocatePod(pod *v1.Pod) error
}

// Releaser is a HintProvider whose allocations can be taken back.
type Releaser interface {
	// Release takes back what the Pod's containers were given: the Pod was refused after all.
	Release(pod *v1.Pod)
}
