package noderesources

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

var _ schedule.ResourceChecker = (*Fit)(nil)

// ResourceCheck compares the requests with what is not used; nil for Pods that ask for resources
// accounted by name.
func (f *Fit) ResourceCheck(p *v1.Pod) schedule.ResourceCheck {
	requests := snapshot.Requests(p)
	if len(requests.Scalar) > 0 {
		return nil
	}
	return func(used schedule.RequestTotals, n framework.NodeInfo) *framework.Status {
		has := snapshot.VectorOf(n.GetAllocatable())
		mask, never := 0, false
		if used.Pods+1 > has.Pods {
			mask = 1
		}
		for i, r := range [...][3]int64{{requests.MilliCPU, used.MilliCPU, has.MilliCPU},
			{requests.Memory, used.Memory, has.Memory},
			{requests.EphemeralStorage, used.Storage, has.EphemeralStorage}} {
			if r[0] > 0 && r[0] > r[2]-r[1] {
				mask |= 2 << i
				never = never || r[0] > r[2]
			}
		}
		switch {
		case mask == 0:
			return nil
		case never:
			return f.unresolvableCache[mask]
		}
		return f.statusCache[mask]
	}
}
