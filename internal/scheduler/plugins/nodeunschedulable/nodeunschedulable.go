// Package nodeunschedulable refuses cordoned nodes (spec.unschedulable), unless the Pod tolerates
// node.kubernetes.io/unschedulable:NoSchedule.
//
// Pods already on a cordoned node are not touched: this counts at scheduling time only.
// Pure.
package nodeunschedulable

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod/fit"
	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

const (
	// Name of the plugin.
	Name = "NodeUnschedulable"
	// Reason is upstream's text.
	Reason = "node(s) were unschedulable"
)

// Plugin implements the extension points of this package.
type Plugin struct{ status *framework.Status }

// New makes the plugin.
func New() *Plugin {
	return &Plugin{status: framework.NewStatus(framework.UnschedulableAndUnresolvable, Reason).WithPlugin(Name)}
}

var (
	_ framework.FilterPlugin      = (*Plugin)(nil)
	_ framework.EnqueueExtensions = (*Plugin)(nil)
	_ framework.SignPlugin        = (*Plugin)(nil)
	_ schedule.Explainer          = (*Plugin)(nil)
)

// Name is Name.
func (*Plugin) Name() string { return Name }

func tolerates(pod *v1.Pod) bool {
	return fit.Tolerates(pod.Spec.Tolerations,
		&v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
}

// Filter refuses cordoned nodes.
func (p *Plugin) Filter(_ context.Context, _ framework.CycleState, pod *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	return p.filter(pod, n.Node().Spec.Unschedulable)
}

func (p *Plugin) filter(pod *v1.Pod, unschedulable bool) *framework.Status {
	if !unschedulable || tolerates(pod) {
		return nil
	}
	return p.status
}

// Explain says how to lift it.
func (*Plugin) Explain(_ context.Context, _ framework.CycleState, _ *v1.Pod,
	n framework.NodeInfo) schedule.Explanation {
	return schedule.Explanation{Code: reason.Cordoned, Detail: "cordoned (spec.unschedulable)",
		Fix: fmt.Sprintf("kubectl uncordon %s", n.Node().Name)}
}

// EventsToRegister wakes for nodes that become schedulable and for a toleration added to the Pod.
func (*Plugin) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	node := func(_ logr.Logger, _ *v1.Pod, before, after any) (framework.QueueingHint, error) {
		was, had := before.(*v1.Node)
		is, has := after.(*v1.Node)
		if has && (is.Spec.Unschedulable || had && !was.Spec.Unschedulable) {
			return framework.QueueSkip, nil
		}
		return framework.Queue, nil
	}
	own := func(_ logr.Logger, pod *v1.Pod, _, after any) (framework.QueueingHint, error) {
		if changed, ok := after.(*v1.Pod); ok && (changed.UID != pod.UID || !tolerates(changed)) {
			return framework.QueueSkip, nil
		}
		return framework.Queue, nil
	}
	return []framework.ClusterEventWithHint{
		{Event: framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add | framework.UpdateNodeTaint},
			QueueingHintFn: node},
		{Event: framework.ClusterEvent{Resource: framework.TargetPod, ActionType: framework.UpdatePodToleration},
			QueueingHintFn: own},
	}, nil
}

// SignPod signs the tolerations.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]framework.SignFragment, *framework.Status) {
	return []framework.SignFragment{{Key: framework.TolerationsSignerName,
		Value: framework.TolerationsSigner(pod)}}, nil
}
