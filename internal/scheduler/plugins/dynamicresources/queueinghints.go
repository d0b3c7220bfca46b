package dynamicresources

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/kube-scheduler/framework"
)

// EventsToRegister wakes when a claim, a class or devices may have come, or a node that reaches
// them.
func (pl *Plugin) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	if pl.draManager == nil {
		return nil, nil
	}
	on := func(r framework.EventResource, a framework.ActionType,
		hint framework.QueueingHintFn) framework.ClusterEventWithHint {
		return framework.ClusterEventWithHint{Event: framework.ClusterEvent{Resource: r, ActionType: a},
			QueueingHintFn: hint}
	}
	return []framework.ClusterEventWithHint{
		on(framework.Node, framework.Add|framework.UpdateNodeLabel|framework.UpdateNodeAllocatable, nil),
		on(framework.ResourceClaim, framework.Add|framework.Update, pl.IsSchedulableAfterClaimChange),
		on(framework.TargetPod, framework.UpdatePodGeneratedResourceClaim, pl.IsSchedulableAfterPodChange),
		on(framework.DeviceClass, framework.Add|framework.Update, nil),
		on(framework.ResourceSlice, framework.Add|framework.Update, nil),
	}, nil
}

// IsSchedulableAfterClaimChange: devices that a claim gave back may help anybody; else only the
// Pod's own claims matter, and of them what their status says.
func (pl *Plugin) IsSchedulableAfterClaimChange(_ logr.Logger, p *v1.Pod,
	before, after any) (framework.QueueingHint, error) {
	was, had := before.(*resourceapi.ResourceClaim)
	is, ok := after.(*resourceapi.ResourceClaim)
	if !ok {
		return framework.Queue, fmt.Errorf("got a %T, want a ResourceClaim", after)
	}
	claims, err := pl.claimsOf(p)
	if err != nil {
		return framework.QueueSkip, nil //nolint:nilerr // it still waits for a claim
	}
	if had && was.Status.Allocation != nil && is.Status.Allocation == nil {
		return framework.Queue, nil
	}
	for _, c := range claims {
		if c.UID == is.UID {
			return queueWhen(!had || !equality.Semantic.DeepEqual(&was.Status, &is.Status)), nil
		}
	}
	return framework.QueueSkip, nil
}

// IsSchedulableAfterPodChange: the claims made from the Pod's templates are all there now.
func (pl *Plugin) IsSchedulableAfterPodChange(_ logr.Logger, p *v1.Pod, _, after any) (framework.QueueingHint, error) {
	is, ok := after.(*v1.Pod)
	if !ok {
		return framework.Queue, fmt.Errorf("got a %T, want a Pod", after)
	}
	if is.UID != p.UID {
		return framework.QueueSkip, nil
	}
	_, err := pl.claimsOf(is)
	return queueWhen(err == nil), nil
}

func queueWhen(yes bool) framework.QueueingHint {
	if yes {
		return framework.Queue
	}
	return framework.QueueSkip
}
