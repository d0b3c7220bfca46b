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

// Evaluator refuses rows of other names.
func (p *Plugin) Evaluator(pod *v1.Pod, t *columns.Table) *columns.Evaluator {
	name := pod.Spec.NodeName
	if name == "" {
		return &columns.Evaluator{}
	}
	return &columns.Evaluator{Filter: func(rows []int32, no []*framework.Status) {
		for i, row := range rows {
			if no[i] == nil && t.NodeObjects[row].Name != name {
				no[i] = p.status
			}
		}
	}}
}
