// Package nodeports refuses nodes where a host port the Pod asks for is taken.
//
// Pure.
package nodeports

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/pod/fit"
	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

const (
	// Name of the plugin.
	Name = "NodePorts"
	// Reason is upstream's text.
	Reason = "node(s) didn't have free ports for the requested pod ports"

	filterKey framework.StateKey = "PreFilter" + Name
)

// Plugin implements the extension points of this package.
type Plugin struct{ status *framework.Status }

// New makes the plugin.
func New() *Plugin {
	return &Plugin{status: framework.NewStatus(framework.Unschedulable, Reason).WithPlugin(Name)}
}

var (
	_ framework.PreFilterPlugin   = (*Plugin)(nil)
	_ framework.FilterPlugin      = (*Plugin)(nil)
	_ framework.EnqueueExtensions = (*Plugin)(nil)
	_ framework.SignPlugin        = (*Plugin)(nil)
	_ schedule.Explainer          = (*Plugin)(nil)
)

// Name is Name.
func (*Plugin) Name() string { return Name }

type preFilterState []v1.ContainerPort

// Clone shares: nothing changes them.
func (w preFilterState) Clone() framework.StateData { return w }

// PreFilter skips Pods without host ports.
func (*Plugin) PreFilter(_ context.Context, state framework.CycleState, p *v1.Pod,
	_ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	ports := pod.HostPorts(p)
	if len(ports) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	state.Write(filterKey, preFilterState(ports))
	return nil, nil
}

// PreFilterExtensions has none: ports are read from the node.
func (*Plugin) PreFilterExtensions() framework.PreFilterExtensions { return nil }

func conflictingPort(state framework.CycleState, p *v1.Pod, n framework.NodeInfo) (v1.ContainerPort, bool) {
	used := n.GetUsedPorts()
	if len(used) == 0 {
		return v1.ContainerPort{}, false
	}
	v, err := state.Read(filterKey)
	ports, ok := v.(preFilterState)
	if err != nil || !ok {
		ports = pod.HostPorts(p)
	}
	for _, port := range ports {
		if used.CheckConflict(port.HostIP, string(port.Protocol), port.HostPort) {
			return port, true
		}
	}
	return v1.ContainerPort{}, false
}

// Filter refuses nodes where a port is taken.
func (pl *Plugin) Filter(_ context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	if _, bad := conflictingPort(state, p, n); bad {
		return pl.status
	}
	return nil
}

// Explain names the port and who has it.
func (*Plugin) Explain(_ context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) schedule.Explanation {
	port, bad := conflictingPort(state, p, n)
	if !bad {
		return schedule.Explanation{}
	}
	holder := "another Pod"
	for _, i := range n.GetPods() {
		if _, clash := fit.PortConflict([]v1.ContainerPort{port}, pod.HostPorts(i.GetPod())); clash {
			holder = pod.Key(i.GetPod())
			break
		}
	}
	return schedule.Explanation{Code: reason.PortTaken, Detail: fmt.Sprintf("host port %d is taken by %s",
		port.HostPort, holder), Fix: "choose another hostPort, or do without one"}
}

// EventsToRegister wakes when a Pod that shared a port goes, and for new nodes.
func (*Plugin) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	gone := func(_ logr.Logger, p *v1.Pod, before, _ any) (framework.QueueingHint, error) {
		if other, ok := before.(*v1.Pod); ok {
			if _, shared := fit.PortConflict(pod.HostPorts(p), pod.HostPorts(other)); !shared ||
				other.Spec.NodeName == "" {
				return framework.QueueSkip, nil
			}
		}
		return framework.Queue, nil
	}
	return []framework.ClusterEventWithHint{
		{Event: framework.ClusterEvent{Resource: framework.AssignedPod, ActionType: framework.Delete},
			QueueingHintFn: gone},
		{Event: framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add}},
	}, nil
}

// SignPod signs the host ports.
func (*Plugin) SignPod(_ context.Context, p *v1.Pod) ([]framework.SignFragment, *framework.Status) {
	return []framework.SignFragment{{Key: framework.HostPortsSignerName, Value: framework.HostPortsSigner(p)}}, nil
}
