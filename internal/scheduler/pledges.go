package scheduler

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/place"
)

// pledges guards the nominations for rulings and searches, which ask what changed.
type pledges struct{ s *Scheduler }

var _ place.Pledges = pledges{}

// Nodes lists those that are promised to somebody; nil when none is.
func (p pledges) Nodes() []string {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.s.nominated.Nodes()
}

// On lists the Pods promised a node.
func (p pledges) On(node string) []framework.PodInfo {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.s.nominated.On(node)
}

// Of gives the node promised to a Pod.
func (p pledges) Of(uid types.UID) string {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.s.nominated.Of(uid)
}

// Since lists the nodes whose promises changed after a time.
func (p pledges) Since(clock int64) (nodes []string, now int64, known bool) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.s.nominated.Since(clock)
}
