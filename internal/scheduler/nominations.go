package scheduler

import (
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// nominations are the nominated Pods (status.nominatedNodeName) by node, for plugins
// (framework.PodNominator), for Filter and for the search for victims (schedule.Nominations).
//
// The room of nominated Pods is counted in three steps. AddNominatedPod and UpdateNominatedPod
// enter a Pod, from PostFilter's result (failure.go) or from its status (eventhandlers.go).
// queue.Nominator keeps the Pods by node. Filter runs once with and once without the Pods of
// NominatedPodsForNode on the node (schedule.AddNominatedPods and schedule/nominated.go). AssumePod
// and the deletion of the Pod end a nomination.
//
// It takes the lock of cacheAndQueue: none of its methods may be called with mu held.
type nominations struct {
	mu        sync.Locker
	nominator *queue.Nominator
}

var (
	_ framework.PodNominator = nominations{}
	_ schedule.Nominations   = nominations{}
)

func newNominations(s *cacheAndQueue) nominations { return nominations{&s.mu, s.nominator} }

// AddNominatedPod nominates a Pod to the node of info when its mode is to override, else to that of
// the Pod's status; an empty name ends the nomination.
func (n nominations) AddNominatedPod(_ logr.Logger, p framework.PodInfo, info *framework.NominatingInfo) {
	node := p.GetPod().Status.NominatedNodeName
	if info.Mode() == framework.ModeOverride {
		node = info.NominatedNodeName
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nominator.AddNominatedPod(p, node)
}

// DeleteNominatedPodIfExists ends a Pod's nomination.
func (n nominations) DeleteNominatedPodIfExists(p *v1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nominator.DeleteNominatedPodIfExists(p.UID)
}

// UpdateNominatedPod takes in a changed Pod; a nomination whose write is under way stays.
func (n nominations) UpdateNominatedPod(_ logr.Logger, old *v1.Pod, p framework.PodInfo) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nominator.UpdateNominatedPod(old, p)
}

// NominatedPodsForNode lists the Pods nominated to a node, by UID; the caller must not change the
// list.
func (n nominations) NominatedPodsForNode(node string) []framework.PodInfo {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nominator.NominatedPodsForNode(node)
}

// NominatedNodes lists the nodes that Pods are nominated to; nil when there are none.
func (n nominations) NominatedNodes() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nominator.NominatedNodes()
}

// NominatedNodeName is the node a Pod is nominated to; empty when it is not.
func (n nominations) NominatedNodeName(uid types.UID) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nominator.NominatedNodeName(uid)
}

// Since lists the nodes whose nominated Pods changed after clock, which an earlier call gave as
// now; known is false when that is too long ago, and any node may have changed.
func (n nominations) Since(clock int64) (nodes []string, now int64, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nominator.Since(clock)
}
