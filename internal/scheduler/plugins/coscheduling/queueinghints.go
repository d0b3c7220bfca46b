package coscheduling

import (
	"context"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kube-scheduler/framework"
)

// EventsToRegister wakes members for the new member that completes the group, and for a new or
// changed PodGroup.
func (p *Plugin) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	groups := framework.EventResource(PodGroups.Resource + "." + PodGroups.Version + "." + PodGroups.Group)
	return []framework.ClusterEventWithHint{
		{Event: framework.ClusterEvent{Resource: framework.Pod, ActionType: framework.Add},
			QueueingHintFn: p.isSchedulableAfterPodChange},
		{Event: framework.ClusterEvent{Resource: groups, ActionType: framework.Add | framework.Update},
			QueueingHintFn: isSchedulableAfterPodGroupChange},
	}, nil
}

func (p *Plugin) isSchedulableAfterPodChange(_ logr.Logger, pod *v1.Pod, _, now any) (framework.QueueingHint, error) {
	if o, ok := now.(*v1.Pod); !ok || o.Namespace != pod.Namespace || PodGroupLabelOf(o) != PodGroupLabelOf(pod) {
		return framework.QueueSkip, nil
	}
	g, _ := p.group(pod)
	if g == nil {
		return framework.Queue, nil
	}
	members, err := p.sources.Members(g.Namespace, g.Name)
	if err == nil && len(members) < int(g.Spec.MinMember) {
		return framework.QueueSkip, nil // it would be refused again
	}
	return framework.Queue, err
}

// isSchedulableAfterPodGroupChange wakes members for what their group asks: its status tells only
// what became of them.
func isSchedulableAfterPodGroupChange(_ logr.Logger, p *v1.Pod, before, now any) (framework.QueueingHint, error) {
	o, ok := now.(interface {
		GetName() string
		GetNamespace() string
	})
	if !ok || o.GetNamespace() != p.Namespace || o.GetName() != PodGroupLabelOf(p) || sameSpec(before, now) {
		return framework.QueueSkip, nil
	}
	return framework.Queue, nil
}

func sameSpec(before, now any) bool {
	was, a := before.(*unstructured.Unstructured)
	is, b := now.(*unstructured.Unstructured)
	return a && b && was != nil && is != nil && equality.Semantic.DeepEqual(was.Object["spec"], is.Object["spec"])
}

// missingResources is what minResources asks beyond what all nodes together have free; what members
// occupy already counts as free.
func missingResources(g *Group, nodes []framework.NodeInfo) v1.ResourceList {
	if len(g.Spec.MinResources) == 0 {
		return nil
	}
	left := g.Spec.MinResources.DeepCopy()
	for _, n := range nodes {
		if n.Node() == nil {
			continue
		}
		own := n.Snapshot()
		for _, other := range n.GetPods() {
			if o := other.GetPod(); o.Namespace == g.Namespace && PodGroupLabelOf(o) == g.Name {
				_ = own.RemovePod(logr.Discard(), o) // it is there: it was listed a line above
			}
		}
		subtractFree(left, own)
		if len(left) == 0 {
			return nil
		}
	}
	return left
}

// subtractFree subtracts from left what a node has free.
func subtractFree(left v1.ResourceList, n framework.NodeInfo) {
	all, used := n.GetAllocatable(), n.GetRequested()
	for name, want := range left {
		var free resource.Quantity
		switch name {
		case v1.ResourceCPU:
			free = *resource.NewMilliQuantity(all.GetMilliCPU()-used.GetMilliCPU(), resource.DecimalSI)
		case v1.ResourceMemory:
			free = *resource.NewQuantity(all.GetMemory()-used.GetMemory(), resource.BinarySI)
		case v1.ResourceEphemeralStorage:
			free = *resource.NewQuantity(all.GetEphemeralStorage()-used.GetEphemeralStorage(), resource.BinarySI)
		case v1.ResourcePods:
			free = *resource.NewQuantity(int64(all.GetAllowedPodNumber()-len(n.GetPods())), resource.DecimalSI)
		default:
			free = *resource.NewQuantity(all.GetScalarResources()[name]-used.GetScalarResources()[name],
				resource.DecimalSI)
		}
		if free.Sign() > 0 {
			want.Sub(free)
		}
		if want.Sign() <= 0 {
			delete(left, name)
		} else {
			left[name] = want
		}
	}
}
