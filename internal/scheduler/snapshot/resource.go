package snapshot

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod/fit"
)

// Resource is fit.Vector behind the framework's interface.
type Resource struct{ fit.Vector }

var _ framework.Resource = (*Resource)(nil)

// GetMilliCPU is cpu in thousandths.
func (r *Resource) GetMilliCPU() int64 { return r.MilliCPU }

// GetMemory is memory in bytes.
func (r *Resource) GetMemory() int64 { return r.Memory }

// GetEphemeralStorage is ephemeral storage in bytes.
func (r *Resource) GetEphemeralStorage() int64 { return r.EphemeralStorage }

// GetAllowedPodNumber is the node's limit of Pods.
func (r *Resource) GetAllowedPodNumber() int { return int(r.Pods) }

// GetScalarResources is everything accounted by name.
func (r *Resource) GetScalarResources() map[v1.ResourceName]int64 { return r.Scalar }

// SetMaxResource raises each resource to the list's figure where larger.
func (r *Resource) SetMaxResource(rl v1.ResourceList) { r.Max(rl) }

// VectorOf gives the sum behind any framework.Resource; the caller must not change it.
func VectorOf(r framework.Resource) *fit.Vector {
	if own, ok := r.(*Resource); ok {
		return &own.Vector
	}
	return &fit.Vector{MilliCPU: r.GetMilliCPU(), Memory: r.GetMemory(), EphemeralStorage: r.GetEphemeralStorage(),
		Pods: int64(r.GetAllowedPodNumber()), Scalar: r.GetScalarResources()}
}
