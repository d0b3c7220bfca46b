package imagelocality

import (
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

var _ schedule.ColumnPlugin = (*Plugin)(nil)

// AppendShape is the image names. How many nodes there are counts too, but rows are evaluated anew
// when that changes.
func (*Plugin) AppendShape(to []byte, p *v1.Pod) ([]byte, bool) {
	for i := range p.Spec.InitContainers {
		to = schedule.AppendString(to, p.Spec.InitContainers[i].Image)
	}
	to = append(to, 0xff)
	for i := range p.Spec.Containers {
		to = schedule.AppendString(to, p.Spec.Containers[i].Image)
	}
	to = append(to, 0xff)
	for i := range p.Spec.Volumes {
		if im := p.Spec.Volumes[i].Image; im != nil {
			to = schedule.AppendString(to, im.Reference)
		}
	}
	return to, true
}

// Evaluator is Score by columns.
func (pl *Plugin) Evaluator(p *v1.Pod, t *columns.Table) *columns.Evaluator {
	return &columns.Evaluator{Score: func(rows []int32, raw []int64) {
		for i, row := range rows {
			raw[i] = 0
			if t.HasImages[row] {
				raw[i] = score(p, t.Nodes[row], t.Len())
			}
		}
	}}
}
