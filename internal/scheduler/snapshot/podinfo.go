package snapshot

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod/fit"
)

// What a container that asks for nothing counts as in scores, so that many such containers do not
// pile up on one node (upstream's non-zero requests).
const (
	DefaultMilliCPU int64 = 100
	DefaultMemory   int64 = 200 * 1024 * 1024
)

// PodInfo is a Pod with its requests and affinity terms read once.
type PodInfo struct {
	pod      *v1.Pod
	requests fit.Vector // what the Pod requests
	// the same with defaults for containers that request nothing; only cpu and memory are meant to
	// be read
	nonZeroRequests fit.Vector
	affinityTerms
}

var _ framework.PodInfo = (*PodInfo)(nil)

// NewPodInfo reads a Pod. The error is about an affinity term whose selector cannot be read; the
// PodInfo is usable without that term.
func NewPodInfo(p *v1.Pod) (*PodInfo, error) {
	t, err := affinityTermsOf(p)
	i := &PodInfo{pod: p, affinityTerms: t}
	i.requests, i.nonZeroRequests = RequestsAndNonZero(p)
	return i, err
}

// GetPod gives the Pod.
func (i *PodInfo) GetPod() *v1.Pod { return i.pod }

// GetRequiredAffinityTerms gives spec.affinity.podAffinity's required terms.
func (i *PodInfo) GetRequiredAffinityTerms() []framework.AffinityTerm { return i.affinity }

// GetRequiredAntiAffinityTerms gives spec.affinity.podAntiAffinity's required terms.
func (i *PodInfo) GetRequiredAntiAffinityTerms() []framework.AffinityTerm { return i.antiAffinity }

// GetPreferredAffinityTerms gives spec.affinity.podAffinity's preferred terms.
func (i *PodInfo) GetPreferredAffinityTerms() []framework.WeightedAffinityTerm { return i.preferred }

// GetPreferredAntiAffinityTerms gives spec.affinity.podAntiAffinity's preferred terms.
func (i *PodInfo) GetPreferredAntiAffinityTerms() []framework.WeightedAffinityTerm {
	return i.preferredAnti
}

// CalculateResource gives the requests.
func (i *PodInfo) CalculateResource() framework.PodResource {
	return framework.PodResource{Resource: &Resource{i.requests}, Non0CPU: i.nonZeroRequests.MilliCPU,
		Non0Mem: i.nonZeroRequests.Memory}
}

// requestsOf gives the requests and the non-zero requests of any PodInfo.
func requestsOf(i framework.PodInfo) (requests, nonZero *fit.Vector) {
	if own, ok := i.(*PodInfo); ok {
		return &own.requests, &own.nonZeroRequests
	}
	r := i.CalculateResource()
	return VectorOf(r.Resource), &fit.Vector{MilliCPU: r.Non0CPU, Memory: r.Non0Mem}
}
