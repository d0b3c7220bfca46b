package nodename

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
	"github.com/gantry-project/gantry/internal/scheduler/place"
)

var (
	_ place.Indexed = (*Plugin)(nil)
	_ place.Podless = (*Plugin)(nil)
)

// Podless: the node itself decides.
func (*Plugin) Podless() {}

// Shape is the name asked for.
func (*Plugin) Shape(to []byte, p *v1.Pod) ([]byte, bool) {
	return place.AppendString(to, p.Spec.NodeName), true
}

// Opinion refuses rows of other names.
func (p *Plugin) Opinion(pod *v1.Pod, t *columns.Table) *columns.Opinion {
	name := pod.Spec.NodeName
	if name == "" {
		return &columns.Opinion{}
	}
	return &columns.Opinion{Refuse: func(rows []int32, no []*framework.Status) {
		for i, row := range rows {
			if no[i] == nil && t.Objects[row].Name != name {
				no[i] = p.no
			}
		}
	}}
}
