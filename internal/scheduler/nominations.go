package scheduler

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// nominations guards the nominations for rulings and searches, which ask what changed.
type nominations struct{ s *Scheduler }

var _ schedule.Nominations = nominations{}

// NominatedNodes lists those that are promised to somebody; nil when none is.
func (p nominations) NominatedNodes() []string {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.s.nominator.NominatedNodes()
}

// NominatedPodsForNode lists the Pods promised a node.
func (p nominations) NominatedPodsForNode(node string) []framework.PodInfo {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.s.nominator.NominatedPodsForNode(node)
}

// NominatedNodeName gives the node promised to a Pod.
func (p nominations) NominatedNodeName(uid types.UID) string {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.s.nominator.NominatedNodeName(uid)
}

// Since lists the nodes whose promises changed after a time.
func (p nominations) Since(clock int64) (nodes []string, now int64, known bool) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.s.nominator.Since(clock)
}
