package nodeunschedulable

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

// Shape is whether the Pod tolerates cordoned nodes.
func (*Plugin) Shape(to []byte, p *v1.Pod) ([]byte, bool) {
	if tolerates(p) {
		return append(to, 1), true
	}
	return append(to, 0), true
}

// Opinion refuses cordoned rows.
func (p *Plugin) Opinion(pod *v1.Pod, t *columns.Table) *columns.Opinion {
	if tolerates(pod) {
		return &columns.Opinion{}
	}
	return &columns.Opinion{Refuse: func(rows []int32, no []*framework.Status) {
		for i, row := range rows {
			if no[i] == nil && t.Unschedulable[row] {
				no[i] = p.no
			}
		}
	}}
}
