package interpodaffinity

import (
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

var _ place.Quiet = (*Plugin)(nil)

// Quiet tells whether neither the Pod nor any Pod on a node has affinity to others.
func (*Plugin) Quiet(p *v1.Pod, w *snapshot.Snapshot) bool {
	a := p.Spec.Affinity
	return (a == nil || a.PodAffinity == nil && a.PodAntiAffinity == nil) && !w.Affine()
}
