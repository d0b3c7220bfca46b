// Package nodename refuses every node but the one that spec.nodeName names.
//
// Pods that name a node are not queued by this scheduler, so the plugin matters in simulations, in
// `why` and for other callers of the framework. Pure.
package nodename

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

const (
	// Name of the plugin.
	Name = "NodeName"
	// Reason is upstream's text.
	Reason = "node(s) didn't match the requested node name"
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

// Filter refuses nodes of another name.
func (p *Plugin) Filter(_ context.Context, _ framework.CycleState, pod *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	return p.filter(pod, n.Node().Name)
}

func (p *Plugin) filter(pod *v1.Pod, node string) *framework.Status {
	if pod.Spec.NodeName == "" || pod.Spec.NodeName == node {
		return nil
	}
	return p.status
}

// Explain names the node asked for.
func (*Plugin) Explain(_ context.Context, _ framework.CycleState, pod *v1.Pod,
	_ framework.NodeInfo) schedule.Explanation {
	return schedule.Explanation{Code: reason.OtherNodeNamed,
		Detail: fmt.Sprintf("spec.nodeName is %q", pod.Spec.NodeName),
		Fix:    fmt.Sprintf("add a node named %q, or make the Pod anew without spec.nodeName", pod.Spec.NodeName)}
}

// EventsToRegister wakes for a new node of that name.
func (*Plugin) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	hint := func(_ logr.Logger, pod *v1.Pod, _, obj any) (framework.QueueingHint, error) {
		if n, ok := obj.(*v1.Node); ok && n.Name != pod.Spec.NodeName {
			return framework.QueueSkip, nil
		}
		return framework.Queue, nil
	}
	return []framework.ClusterEventWithHint{
		{Event: framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add}, QueueingHintFn: hint}}, nil
}

// SignPod signs the name.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]framework.SignFragment, *framework.Status) {
	return []framework.SignFragment{{Key: framework.NodeNameSignerName, Value: pod.Spec.NodeName}}, nil
}
