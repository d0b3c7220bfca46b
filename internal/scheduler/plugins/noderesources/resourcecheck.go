package noderesources

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

var _ schedule.ResourceChecker = (*Fit)(nil)

// ResourceCheck is Filter of a node of which another amount is used; nil for Pods that request
// resources accounted by name.
func (f *Fit) ResourceCheck(p *v1.Pod) schedule.ResourceCheck {
	requests := snapshot.Requests(p)
	if len(requests.Scalar) > 0 {
		return nil
	}
	asked := commonRequests(&requests)
	return func(used schedule.RequestTotals, n framework.NodeInfo) *framework.Status {
		has := commonAmountsOf(snapshot.VectorOf(n.GetAllocatable()))
		return f.filterCommon(&asked, &commonAmounts{used.Pods, used.MilliCPU, used.Memory, used.Storage}, &has)
	}
}
