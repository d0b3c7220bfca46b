package tainttoleration

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod/fit"
	"github.com/gantry-project/gantry/internal/scheduler/columns"
	"github.com/gantry-project/gantry/internal/scheduler/place"
)

var (
	_ place.Indexed = (*Plugin)(nil)
	_ place.Podless = (*Plugin)(nil)
	_ place.Scaled  = (*Plugin)(nil)
)

// Podless: the node itself decides.
func (*Plugin) Podless() {}

// Shape is the tolerations.
func (*Plugin) Shape(to []byte, p *v1.Pod) ([]byte, bool) {
	for i := range p.Spec.Tolerations {
		t := &p.Spec.Tolerations[i]
		to = place.AppendString(to, t.Key)
		to = place.AppendString(to, string(t.Operator))
		to = place.AppendString(to, t.Value)
		to = place.AppendString(to, string(t.Effect))
	}
	return to, true
}

// Scale says that the most untolerated taints are the worst.
func (*Plugin) Scale() (reverse bool) { return true }

// met is what a list of taints means to a Pod.
type met struct {
	refused     bool
	unpreferred int64
}

// Opinion judges each different list of taints once.
func (p *Plugin) Opinion(pod *v1.Pod, t *columns.Table) *columns.Opinion {
	var known []met
	own := preferring(pod)
	of := func(row int32) met {
		set := t.TaintSet[row]
		for int(set) >= len(known) {
			known = append(known, meet(t.Taints[len(known)], pod.Spec.Tolerations, own))
		}
		return known[set]
	}
	return &columns.Opinion{
		Refuse: func(rows []int32, no []*framework.Status) {
			for i, row := range rows {
				if no[i] == nil && t.TaintSet[row] != 0 && of(row).refused {
					no[i] = p.no
				}
			}
		},
		Score: func(rows []int32, raw []int64) {
			for i, row := range rows {
				if t.TaintSet[row] != 0 {
					raw[i] = of(row).unpreferred
				}
			}
		},
	}
}

func meet(taints []v1.Taint, all []v1.Toleration, preferring tolerations) met {
	var m met
	_, m.refused = fit.Untolerated(taints, all, v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute)
	m.unpreferred = count(taints, preferring)
	return m
}
