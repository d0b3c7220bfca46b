package interpodaffinity

import (
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

var _ schedule.Skipper = (*Plugin)(nil)

// Skips tells whether neither the Pod nor any Pod on a node has affinity to others.
func (*Plugin) Skips(p *v1.Pod, w *snapshot.Snapshot) bool {
	a := p.Spec.Affinity
	return (a == nil || a.PodAffinity == nil && a.PodAntiAffinity == nil) && !w.HasPodsWithAffinity()
}
