package gangscheduling

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/kube-scheduler/framework"
)

// Name of the plugin.
const Name = "GangScheduling"

// Upstream's texts.
const (
	NoPodGroup          = "waiting for pods's pod group %q to appear in scheduling queue"
	TooFew              = "waiting for minCount pods from a gang to appear in scheduling queue"
	Unsatisfied         = "minCount (%d) is not yet satisfied: %d scheduled, %d remaining"
	MinCountUnreachable = "minCount (%d) cannot be satisfied: %d scheduled, %d remaining"
	Unschedulable       = "pod group is unschedulable"
)

// Plugin is the plugin.
type Plugin struct{ groups framework.PodGroupManager }

var (
	_ framework.PreEnqueuePlugin  = (*Plugin)(nil)
	_ framework.EnqueueExtensions = (*Plugin)(nil)
)

// New makes it.
func New(groups framework.PodGroupManager) *Plugin { return &Plugin{groups} }

// Name is Name.
func (*Plugin) Name() string { return Name }

// PodGroupNameOf names a Pod's group; empty when it has none.
func PodGroupNameOf(p *v1.Pod) string {
	if g := p.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return *g.PodGroupName
	}
	return ""
}

// MinCount is how many Pods of a group must have a node at once: minCount of a gang, 1 otherwise.
func MinCount(g *schedulingv1beta1.PodGroup) int {
	if gang := g.Spec.SchedulingPolicy.Gang; gang != nil {
		return int(gang.MinCount)
	}
	return 1
}

// PreEnqueue gates a Pod until its group exists and, for a gang, has minCount Pods.
func (p *Plugin) PreEnqueue(_ context.Context, pod *v1.Pod) *framework.Status {
	name := PodGroupNameOf(pod)
	if name == "" {
		return nil
	}
	g, err := p.groups.PodGroups().Get(pod.Namespace, name)
	if err != nil {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf(NoPodGroup, name))
	}
	if g.Spec.SchedulingPolicy.Gang == nil {
		return nil
	}
	state, err := p.groups.PodGroupStates().Get(pod.Namespace, name)
	if err != nil {
		return framework.AsStatus(err)
	}
	if state.AllPodsCount() < MinCount(g) {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, TooFew)
	}
	return nil
}

// Progress is how far the cycle of a group has come.
type Progress struct {
	Scheduled int // Pods that have a node, bound or in thought
	Remaining int // Pods not evaluated yet
}

// Feasible tells whether a group can go with so many Pods: success, Wait while more must be placed,
// or Unschedulable when too few are left.
func Feasible(least int, p Progress) *framework.Status {
	switch {
	case p.Remaining+p.Scheduled < least:
		return framework.NewStatus(framework.Unschedulable, fmt.Sprintf(MinCountUnreachable, least, p.Scheduled,
			p.Remaining))
	case p.Scheduled < least:
		return framework.NewStatus(framework.Wait, fmt.Sprintf(Unsatisfied, least, p.Scheduled, p.Remaining))
	}
	return nil
}

// EventsToRegister wakes members for another member, for the group itself and for a lower minCount.
func (*Plugin) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{
		{Event: framework.ClusterEvent{Resource: framework.UnscheduledPod, ActionType: framework.Add},
			QueueingHintFn: isSchedulableAfterPodChange},
		{Event: framework.ClusterEvent{Resource: framework.AssignedPod, ActionType: framework.Add},
			QueueingHintFn: isSchedulableAfterPodChange},
		{Event: framework.ClusterEvent{Resource: framework.PodGroup, ActionType: framework.Add | framework.Update},
			QueueingHintFn: isSchedulableAfterPodGroupChange},
	}, nil
}

func isSchedulableAfterPodChange(_ logr.Logger, p *v1.Pod, _, now any) (framework.QueueingHint, error) {
	o, ok := now.(*v1.Pod)
	if !ok {
		return framework.Queue, fmt.Errorf("%T is no Pod", now)
	}
	if PodGroupNameOf(p) != "" && o.Namespace == p.Namespace && PodGroupNameOf(o) == PodGroupNameOf(p) {
		return framework.Queue, nil
	}
	return framework.QueueSkip, nil
}

func isSchedulableAfterPodGroupChange(_ logr.Logger, p *v1.Pod, before, now any) (framework.QueueingHint, error) {
	g, ok := now.(*schedulingv1beta1.PodGroup)
	if !ok {
		return framework.Queue, fmt.Errorf("%T is no PodGroup", now)
	}
	if PodGroupNameOf(p) != g.Name || p.Namespace != g.Namespace {
		return framework.QueueSkip, nil
	}
	if was, ok := before.(*schedulingv1beta1.PodGroup); ok && was != nil && MinCount(g) >= MinCount(was) {
		return framework.QueueSkip, nil
	}
	return framework.Queue, nil
}
