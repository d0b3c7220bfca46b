package nodename

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

// AppendShape is the name asked for.
func (*Plugin) AppendShape(to []byte, p *v1.Pod) ([]byte, bool) {
	return schedule.AppendString(to, p.Spec.NodeName), true
}

// Evaluator is Filter by columns.
func (p *Plugin) Evaluator(pod *v1.Pod, t *columns.Table) *columns.Evaluator {
	if pod.Spec.NodeName == "" {
		return &columns.Evaluator{}
	}
	return &columns.Evaluator{Filter: columns.FilterEach(func(row int32) *framework.Status {
		return p.filter(pod, t.NodeObjects[row].Name)
	})}
}
