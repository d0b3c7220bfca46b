package tainttoleration

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

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

// Evaluator is Filter and Score by columns.
func (p *Plugin) Evaluator(pod *v1.Pod, t *columns.Table) *columns.Evaluator {
	own := preferNoScheduleTolerations(pod)
	filter := columns.ByTaints(t, func(n *v1.Node) *framework.Status { return p.filter(pod, n) })
	score := columns.ByTaints(t, func(n *v1.Node) int64 { return countIntolerableTaints(n.Spec.Taints, own) })
	return &columns.Evaluator{Filter: filter.Fill, Score: score.Fill}
}
