package nodeunschedulable

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

var (
	_ schedule.ColumnPlugin = (*Plugin)(nil)
	_ schedule.IgnoresPods  = (*Plugin)(nil)
)

// IgnoresPods: the node itself decides.
func (*Plugin) IgnoresPods() {}

// AppendShape is whether the Pod tolerates cordoned nodes.
func (*Plugin) AppendShape(to []byte, p *v1.Pod) ([]byte, bool) {
	if tolerates(p) {
		return append(to, 1), true
	}
	return append(to, 0), true
}

// Evaluator is Filter by columns.
func (p *Plugin) Evaluator(pod *v1.Pod, t *columns.Table) *columns.Evaluator {
	refusal := p.filter(pod, true)
	if refusal == nil { // it tolerates the taint
		return &columns.Evaluator{}
	}
	return &columns.Evaluator{Filter: func(rows []int32, no []*framework.Status) {
		for i, row := range rows {
			if no[i] == nil && t.Unschedulable[row] {
				no[i] = refusal
			}
		}
	}}
}
