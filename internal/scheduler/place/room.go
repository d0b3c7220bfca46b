package place

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod/fit"
)

// Sum is what Pods ask for together, resources accounted by name left out, and how many they are.
type Sum struct{ MilliCPU, Memory, Storage, Pods int64 }

// SumOf reads it from a vector.
func SumOf(v *fit.Vector) Sum { return Sum{v.MilliCPU, v.Memory, v.EphemeralStorage, v.Pods} }

// Add adds another one.
func (s *Sum) Add(o Sum) {
	*s = Sum{s.MilliCPU + o.MilliCPU, s.Memory + o.Memory, s.Storage + o.Storage, s.Pods + o.Pods}
}

// Sub takes another one away.
func (s *Sum) Sub(o Sum) {
	*s = Sum{s.MilliCPU - o.MilliCPU, s.Memory - o.Memory, s.Storage - o.Storage, s.Pods - o.Pods}
}

// Spare gives the refusal of a node of which so much is used; nil when it is not refused.
type Spare func(used Sum, n framework.NodeInfo) *framework.Status

// Spacious is a Local filter that reads of the Pods on a node their Sum at most, and refuses none for less that is used.
type Spacious interface {
	Local
	// Spare compiles what Filter would say; nil: for this Pod it reads more.
	Spare(p *v1.Pod) Spare
}

// Podless is a Local filter that reads nothing of the Pods on a node.
type Podless interface {
	Local
	Podless()
}
