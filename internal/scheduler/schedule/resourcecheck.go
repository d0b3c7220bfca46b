package schedule

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod/fit"
)

// RequestTotals is what Pods ask for together, resources accounted by name left out, and how many
// they are.
type RequestTotals struct{ MilliCPU, Memory, Storage, Pods int64 }

// RequestTotalsOf reads it from a vector.
func RequestTotalsOf(v *fit.Vector) RequestTotals {
	return RequestTotals{v.MilliCPU, v.Memory, v.EphemeralStorage, v.Pods}
}

// Add adds another one.
func (s *RequestTotals) Add(o RequestTotals) {
	*s = RequestTotals{s.MilliCPU + o.MilliCPU, s.Memory + o.Memory, s.Storage + o.Storage, s.Pods + o.Pods}
}

// Sub takes another one away.
func (s *RequestTotals) Sub(o RequestTotals) {
	*s = RequestTotals{s.MilliCPU - o.MilliCPU, s.Memory - o.Memory, s.Storage - o.Storage, s.Pods - o.Pods}
}

// ResourceCheck gives the refusal of a node of which so much is used; nil when it is not refused.
type ResourceCheck func(used RequestTotals, n framework.NodeInfo) *framework.Status

// ResourceChecker is a NodeLocal filter that reads of the Pods on a node their RequestTotals at
// most, and refuses none for less that is used.
type ResourceChecker interface {
	NodeLocal
	// ResourceCheck compiles what Filter would say; nil: for this Pod it reads more.
	ResourceCheck(p *v1.Pod) ResourceCheck
}

// IgnoresPods is a NodeLocal filter that reads nothing of the Pods on a node.
type IgnoresPods interface {
	NodeLocal
	IgnoresPods()
}
