package noderesources

import (
	"context"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod/fit"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// EventsToRegister wakes when room may have come: a Pod on a node went or shrank, a node came or
// grew, the Pod itself asks for less.
func (f *Fit) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	all := []framework.ClusterEventWithHint{
		{Event: framework.ClusterEvent{Resource: framework.AssignedPod,
			ActionType: framework.Delete | framework.UpdatePodScaleDown}, QueueingHintFn: f.isSchedulableAfterPodEvent},
		{Event: framework.ClusterEvent{Resource: framework.TargetPod, ActionType: framework.UpdatePodScaleDown},
			QueueingHintFn: f.isSchedulableAfterPodUpdate},
		{Event: framework.ClusterEvent{Resource: framework.Node,
			ActionType: framework.Add | framework.UpdateNodeAllocatable},
			QueueingHintFn: f.isSchedulableAfterNodeChange},
	}
	if f.servedByDevices != nil {
		all = append(all, framework.ClusterEventWithHint{Event: framework.ClusterEvent{Resource: framework.DeviceClass,
			ActionType: framework.Add | framework.Update}, QueueingHintFn: f.isSchedulableAfterDeviceClassChange})
	}
	return all, nil
}

// isSchedulableAfterDeviceClassChange: a class helps that serves something asked for.
func (f *Fit) isSchedulableAfterDeviceClassChange(_ logr.Logger, p *v1.Pod, _, _ any) (framework.QueueingHint, error) {
	requests := snapshot.Requests(p)
	if f.anyServedByDevices(&requests) {
		return framework.Queue, nil
	}
	return framework.QueueSkip, nil
}

// isSchedulableAfterPodEvent: a gone Pod frees at least its place; a smaller one helps if it gave
// up something the Pod asks for.
func (f *Fit) isSchedulableAfterPodEvent(_ logr.Logger, p *v1.Pod, before, after any) (framework.QueueingHint, error) {
	was, ok := before.(*v1.Pod)
	if !ok {
		return framework.Queue, nil
	}
	if was.Spec.NodeName == "" && was.Status.NominatedNodeName == "" {
		return framework.QueueSkip, nil // it held no room
	}
	is, ok := after.(*v1.Pod)
	if !ok {
		return framework.Queue, nil
	}
	requests, old, now := snapshot.Requests(p), snapshot.Requests(was), snapshot.Requests(is)
	for _, name := range names(&requests) {
		if requests.Get(name) > 0 && now.Get(name) < old.Get(name) {
			return framework.Queue, nil
		}
	}
	return framework.QueueSkip, nil
}

func (f *Fit) isSchedulableAfterPodUpdate(_ logr.Logger, p *v1.Pod, _, after any) (framework.QueueingHint, error) {
	if is, ok := after.(*v1.Pod); ok && is.UID != p.UID {
		return framework.QueueSkip, nil
	}
	return framework.Queue, nil
}

// isSchedulableAfterNodeChange: the empty node must have room, and a changed one more than before
// of something asked for.
func (f *Fit) isSchedulableAfterNodeChange(_ logr.Logger, p *v1.Pod,
	before, after any) (framework.QueueingHint, error) {
	is, ok := after.(*v1.Node)
	if !ok {
		return framework.Queue, nil
	}
	requests, room := snapshot.Requests(p), fit.VectorOf(is.Status.Allocatable)
	if len(f.shortagesToReport(fit.Shortages(&requests, &fit.Vector{}, &room, f.isIgnored))) > 0 {
		return framework.QueueSkip, nil
	}
	was, ok := before.(*v1.Node)
	if !ok {
		return framework.Queue, nil
	}
	old := fit.VectorOf(was.Status.Allocatable)
	if room.Pods > old.Pods {
		return framework.Queue, nil
	}
	for _, name := range names(&requests) {
		if requests.Get(name) > 0 && room.Get(name) > old.Get(name) {
			return framework.Queue, nil
		}
	}
	return framework.QueueSkip, nil
}

func names(v *fit.Vector) []v1.ResourceName {
	out := []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}
	for name := range v.Scalar {
		out = append(out, name)
	}
	return out
}
