package scheduler

import (
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/bind"
)

// assumeCache claims room in the world.
type assumeCache struct{ *Scheduler }

var _ bind.AssumeCache = assumeCache{}

// AssumePod takes room.
func (l assumeCache) AssumePod(p *v1.Pod, node string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.cache.AssumePod(p, node); err != nil {
		return err
	}
	l.nominator.DeleteNominatedPodIfExists(p.UID) // it counts as standing there now
	l.podGroups.setAssumed(p, true)
	return nil
}

// ForgetPod gives it back, which may help others.
func (l assumeCache) ForgetPod(p *v1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.cache.IsAssumedPod(p.UID) {
		return
	}
	l.cache.ForgetPod(p.UID)
	l.podGroups.setAssumed(p, false)
	l.moveAllToActiveOrBackoffQueue(framework.ClusterEvent{Resource: framework.AssignedPod,
		ActionType: framework.Delete}, p, nil)
}

// assignedPod gives a Pod as it stands on a node by now; mu is held.
func (s *Scheduler) assignedPod(uid types.UID) *v1.Pod {
	p, _ := s.cache.Pod(uid)
	return p
}

// ForgetPodQuietly gives it back when it was only thought of.
func (l assumeCache) ForgetPodQuietly(p *v1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cache.ForgetPod(p.UID)
	l.podGroups.setAssumed(p, false)
}

// doneWithQueue ends a Pod's flight before it is bound: events need not be kept for it, a failed
// bind retries anyway.
func (s *Scheduler) doneWithQueue(p *v1.Pod) {
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
	n.s.nominator.AddNominatedPod(p, node)
}

// DeleteNominatedPodIfExists takes the promise back.
func (n nominator) DeleteNominatedPodIfExists(p *v1.Pod) {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	n.s.nominator.DeleteNominatedPodIfExists(p.UID)
}

// UpdateNominatedPod takes in a changed Pod.
func (n nominator) UpdateNominatedPod(_ logr.Logger, old *v1.Pod, p framework.PodInfo) {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	n.s.nominator.UpdateNominatedPod(old, p)
}

// NominatedPodsForNode lists the Pods promised a node.
func (n nominator) NominatedPodsForNode(node string) []framework.PodInfo {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	return n.s.nominator.NominatedPodsForNode(node)
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
	a.s.recordMoves(a.s.queue.Activate(uids, time.Now()))
}
