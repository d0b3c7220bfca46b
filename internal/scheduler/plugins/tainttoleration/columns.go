package tainttoleration

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod/fit"
	"github.com/gantry-project/gantry/internal/scheduler/columns"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

var (
	_ schedule.ColumnPlugin  = (*Plugin)(nil)
	_ schedule.IgnoresPods   = (*Plugin)(nil)
	_ schedule.MaxNormalized = (*Plugin)(nil)
)

// IgnoresPods: the node itself decides.
func (*Plugin) IgnoresPods() {}

// AppendShape is the tolerations.
func (*Plugin) AppendShape(to []byte, p *v1.Pod) ([]byte, bool) {
	for i := range p.Spec.Tolerations {
		t := &p.Spec.Tolerations[i]
		to = schedule.AppendString(to, t.Key)
		to = schedule.AppendString(to, string(t.Operator))
		to = schedule.AppendString(to, t.Value)
		to = schedule.AppendString(to, string(t.Effect))
	}
	return to, true
}

// NormalizesReversed says that the most untolerated taints are the worst.
func (*Plugin) NormalizesReversed() (reverse bool) { return true }

// taintMatch is what a list of taints means to a Pod.
type taintMatch struct {
	refused     bool
	unpreferred int64
}

// Evaluator judges each different list of taints once.
func (p *Plugin) Evaluator(pod *v1.Pod, t *columns.Table) *columns.Evaluator {
	var known []taintMatch
	own := preferNoScheduleTolerations(pod)
	of := func(row int32) taintMatch {
		set := t.TaintSet[row]
		for int(set) >= len(known) {
			known = append(known, matchTaints(t.Taints[len(known)], pod.Spec.Tolerations, own))
		}
		return known[set]
	}
	return &columns.Evaluator{
		Filter: func(rows []int32, no []*framework.Status) {
			for i, row := range rows {
				if no[i] == nil && t.TaintSet[row] != 0 && of(row).refused {
					no[i] = p.status
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

func matchTaints(taints []v1.Taint, all []v1.Toleration, preferring tolerations) taintMatch {
	var m taintMatch
	_, m.refused = fit.Untolerated(taints, all, v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute)
	m.unpreferred = countIntolerableTaints(taints, preferring)
	return m
}
