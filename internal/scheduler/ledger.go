package scheduler

import (
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/bind"
)

// ledger claims room in the world.
type ledger struct{ *Scheduler }

var _ bind.Ledger = ledger{}

// Assume takes room.
func (l ledger) Assume(p *v1.Pod, node string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.world.Assume(p, node); err != nil {
		return err
	}
	l.nominated.Drop(p.UID) // it counts as standing there now
	l.gangs.assume(p, true)
	return nil
}

// Forget gives it back, which may help others.
func (l ledger) Forget(p *v1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.world.Assumed(p.UID) {
		return
	}
	l.world.Forget(p.UID)
	l.gangs.assume(p, false)
	l.happened(framework.ClusterEvent{Resource: framework.AssignedPod, ActionType: framework.Delete}, p, nil)
}

// standing gives a Pod as it stands on a node by now; mu is held.
func (s *Scheduler) standing(uid types.UID) *v1.Pod {
	p, _ := s.world.Pod(uid)
	return p
}

// Release gives it back when it was only thought of.
func (l ledger) Release(p *v1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.world.Forget(p.UID)
	l.gangs.assume(p, false)
}

// decided ends a Pod's flight before it is bound: events need not be kept for it, a failed bind retries anyway.
func (s *Scheduler) decided(p *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.Done(p.UID)
}

// nominator guards the nominations for plugins.
type nominator struct{ s *Scheduler }

var _ framework.PodNominator = nominator{}

// AddNominatedPod promises a node to a Pod.
func (n nominator) AddNominatedPod(_ logr.Logger, p framework.PodInfo, info *framework.NominatingInfo) {
	node := p.GetPod().Status.NominatedNodeName
	if info.Mode() == framework.ModeOverride {
		node = info.NominatedNodeName
	}
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	n.s.nominated.Set(p, node)
}

// DeleteNominatedPodIfExists takes the promise back.
func (n nominator) DeleteNominatedPodIfExists(p *v1.Pod) {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	n.s.nominated.Drop(p.UID)
}

// UpdateNominatedPod takes in a changed Pod.
func (n nominator) UpdateNominatedPod(_ logr.Logger, old *v1.Pod, p framework.PodInfo) {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	n.s.nominated.Update(old, p)
}

// NominatedPodsForNode lists the Pods promised a node.
func (n nominator) NominatedPodsForNode(node string) []framework.PodInfo {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	return n.s.nominated.On(node)
}

// activator moves Pods to the active queue for plugins.
type activator struct{ s *Scheduler }

var _ framework.PodActivator = activator{}

// Activate moves them.
func (a activator) Activate(_ logr.Logger, pods map[string]*v1.Pod) {
	uids := make([]types.UID, 0, len(pods))
	for _, p := range pods {
		uids = append(uids, p.UID)
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.s.tell(a.s.queue.Activate(uids, time.Now()))
}
