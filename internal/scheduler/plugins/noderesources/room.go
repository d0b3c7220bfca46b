package noderesources

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

var _ place.Spacious = (*Fit)(nil)

// Spare compares the requests with what is not used; nil for Pods that ask for resources accounted by name.
func (f *Fit) Spare(p *v1.Pod) place.Spare {
	ask := snapshot.Ask(p)
	if len(ask.Scalar) > 0 {
		return nil
	}
	return func(used place.Sum, n framework.NodeInfo) *framework.Status {
		has := snapshot.VectorOf(n.GetAllocatable())
		mask, never := 0, false
		if used.Pods+1 > has.Pods {
			mask = 1
		}
		for i, r := range [...][3]int64{{ask.MilliCPU, used.MilliCPU, has.MilliCPU}, {ask.Memory, used.Memory, has.Memory}, {ask.EphemeralStorage, used.Storage, has.EphemeralStorage}} {
			if r[0] > 0 && r[0] > r[2]-r[1] {
				mask |= 2 << i
				never = never || r[0] > r[2]
			}
		}
		switch {
		case mask == 0:
			return nil
		case never:
			return f.never[mask]
		}
		return f.plain[mask]
	}
}
