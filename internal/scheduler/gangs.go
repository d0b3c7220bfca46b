package scheduler

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/bind"
	"github.com/gantry-project/gantry/internal/scheduler/glue"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/gangscheduling"
)

// gangs are the PodGroups of scheduling.k8s.io/v1beta1; nil without the gate GenericWorkload, and then nothing of this costs anything.
type gangs struct {
	book     *glue.Groups
	statuses *bind.GroupStatuses
}

// newGangs asks the API server whether it serves PodGroups. One that cannot be asked now counts as one that does.
func newGangs(o Options) (*gangs, error) {
	if !o.GenericWorkload {
		return nil, nil
	}
	gv := schedulingv1beta1.SchemeGroupVersion.String()
	if _, err := o.Client.Discovery().ServerResourcesForGroupVersion(gv); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("scheduler: the gate GenericWorkload is on, but the API server does not serve %s: start it with --feature-gates=GenericWorkload=true --runtime-config=%s=true, or switch the gate off here", gv, gv)
	}
	groups := o.Informers.Scheduling().V1beta1().PodGroups()
	return &gangs{book: glue.NewGroups(), statuses: bind.NewGroupStatuses(o.Client, groups.Lister())}, nil
}

// groups is what plugins are given; nil without the gate.
func (g *gangs) groups() *glue.Groups {
	if g == nil {
		return nil
	}
	return g.book
}

// assume notes that a Pod stands on a node by assumption, or no longer does.
func (g *gangs) assume(p *v1.Pod, assumed bool) {
	if g != nil {
		g.book.Assume(p, assumed)
	}
}

// follow keeps count of a group's Pods. One that ends or is being deleted is no longer to be reckoned with.
func (g *gangs) follow(was, is *v1.Pod, to stage) {
	switch {
	case g == nil:
	case is != nil && to != nothing && is.DeletionTimestamp == nil:
		g.book.SetPod(is)
	case is != nil:
		g.book.RemovePod(is)
	case was != nil:
		g.book.RemovePod(was)
	}
}

// names is of; nil without the gate.
func (g *gangs) names() func(*v1.Pod) string {
	if g == nil {
		return nil
	}
	return g.of
}

// of names the group a Pod is scheduled with; empty when it is scheduled by itself.
func (g *gangs) of(p *v1.Pod) string {
	if g == nil {
		return ""
	}
	return gangscheduling.Of(p)
}

func (s *Scheduler) watchGangs() error {
	if s.gangs == nil {
		return nil
	}
	return s.observe(s.Informers.Scheduling().V1beta1().PodGroups().Informer(), s.groupChanged)
}

func (s *Scheduler) groupChanged(before, after any) {
	was, _ := before.(*schedulingv1beta1.PodGroup)
	is, ok := after.(*schedulingv1beta1.PodGroup)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ok:
		s.gangs.book.Set(is)
	case was != nil:
		s.gangs.book.Drop(was)
		s.gangs.statuses.Forget(was.UID)
	}
	s.happened(framework.ClusterEvent{Resource: framework.PodGroup, ActionType: action(before, after)}, before, after)
}
