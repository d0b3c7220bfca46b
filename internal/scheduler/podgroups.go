package scheduler

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/bind"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/gangscheduling"
)

// podGroups are the PodGroups of scheduling.k8s.io/v1beta1 with their Pods, and who writes their
// statuses. nil without the gate GenericWorkload: all methods take a nil receiver. The scheduler's
// lock is held.
type podGroups struct {
	states   *frameworkruntime.PodGroups
	statuses *bind.PodGroupStatusWriter
}

// newPodGroups gives nil without the gate. The error is that the API server does not serve
// PodGroups; one that cannot be asked now counts as one that does.
func newPodGroups(o Options) (*podGroups, error) {
	if !o.GenericWorkload {
		return nil, nil
	}
	gv := schedulingv1beta1.SchemeGroupVersion.String()
	if _, err := o.Client.Discovery().ServerResourcesForGroupVersion(gv); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("scheduler: the gate GenericWorkload is on, but the API server does not serve %s: "+
			"start it with --feature-gates=GenericWorkload=true --runtime-config=%s=true, or switch the gate off here",
			gv, gv)
	}
	groups := o.Informers.Scheduling().V1beta1().PodGroups()
	return &podGroups{states: frameworkruntime.NewPodGroups(), statuses: bind.NewPodGroupStatusWriter(o.Client,
		groups.Lister())}, nil
}

// podGroupStates are the groups as plugins see them; nil without the gate.
func (g *podGroups) podGroupStates() *frameworkruntime.PodGroups {
	if g == nil {
		return nil
	}
	return g.states
}

// setAssumed notes that a Pod is assumed on a node, or no longer is.
func (g *podGroups) setAssumed(p *v1.Pod, assumed bool) {
	if g != nil {
		g.states.SetAssumed(p, assumed)
	}
}

// podChanged keeps count of a group's Pods as one of them changes; to is the stage of is. A Pod
// that ends or is being deleted counts no longer.
func (g *podGroups) podChanged(was, is *v1.Pod, to podStage) {
	switch {
	case g == nil:
	case is != nil && to != notOurs && is.DeletionTimestamp == nil:
		g.states.SetPod(is)
	case is != nil:
		g.states.RemovePod(is)
	case was != nil:
		g.states.RemovePod(was)
	}
}

// keyFunc is keyOf; nil without the gate.
func (g *podGroups) keyFunc() func(*v1.Pod) string {
	if g == nil {
		return nil
	}
	return g.keyOf
}

// keyOf names the group a Pod is scheduled with; empty when it is scheduled by itself.
func (g *podGroups) keyOf(p *v1.Pod) string {
	if g == nil {
		return ""
	}
	return gangscheduling.PodGroupNameOf(p)
}

func (s *eventHandlers) watchPodGroups() error {
	if s.state.podGroups == nil {
		return nil
	}
	return s.add(s.informers.Scheduling().V1beta1().PodGroups().Informer(), s.podGroupChanged)
}

// podGroupChanged updates the states of PodGroups and moves the Pods that the change may help.
func (s *eventHandlers) podGroupChanged(before, after any) {
	was, _ := before.(*schedulingv1beta1.PodGroup)
	is, ok := after.(*schedulingv1beta1.PodGroup)
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	groups := s.state.podGroups
	switch {
	case ok:
		groups.states.Set(is)
	case was != nil:
		groups.states.Delete(was)
		groups.statuses.Delete(was.UID)
	}
	s.state.moveAllToActiveOrBackoffQueue(framework.ClusterEvent{Resource: framework.PodGroup,
		ActionType: actionOf(before, after)}, before, after)
}
