// Package schedulinggates keeps Pods with spec.schedulingGates out of the queue until the last gate
// is removed.
//
// Pure.
package schedulinggates

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// Name of the plugin.
const Name = "SchedulingGates"

// Plugin is the gatekeeper.
type Plugin struct{}

// New makes it.
func New() *Plugin { return &Plugin{} }

var (
	_ framework.PreEnqueuePlugin  = (*Plugin)(nil)
	_ framework.EnqueueExtensions = (*Plugin)(nil)
	_ framework.SignPlugin        = (*Plugin)(nil)
)

// Name is Name.
func (*Plugin) Name() string { return Name }

// PreEnqueue names the gates that are left.
func (*Plugin) PreEnqueue(_ context.Context, p *v1.Pod) *framework.Status {
	if len(p.Spec.SchedulingGates) == 0 {
		return nil
	}
	gates := make([]string, 0, len(p.Spec.SchedulingGates))
	for _, g := range p.Spec.SchedulingGates {
		gates = append(gates, g.Name)
	}
	return framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf("waiting for scheduling gates: %v",
		gates))
}

// EventsToRegister wakes when the Pod's last gate goes.
func (*Plugin) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	own := func(_ logr.Logger, p *v1.Pod, _, after any) (framework.QueueingHint, error) {
		if changed, ok := after.(*v1.Pod); ok && (changed.UID != p.UID || len(changed.Spec.SchedulingGates) > 0) {
			return framework.QueueSkip, nil
		}
		return framework.Queue, nil
	}
	return []framework.ClusterEventWithHint{
		{Event: framework.ClusterEvent{Resource: framework.TargetPod,
			ActionType: framework.UpdatePodSchedulingGatesEliminated}, QueueingHintFn: own},
	}, nil
}

// SignPod adds nothing: a gated Pod is not scheduled.
func (*Plugin) SignPod(context.Context, *v1.Pod) ([]framework.SignFragment, *framework.Status) {
	return nil, nil
}
