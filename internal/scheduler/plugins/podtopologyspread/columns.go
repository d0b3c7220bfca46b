package podtopologyspread

import (
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

var _ schedule.Skipper = (*Plugin)(nil)

// Skips tells whether the Pod has no constraint, neither of its own nor by default.
func (pl *Plugin) Skips(p *v1.Pod, _ *snapshot.Snapshot) bool {
	if len(p.Spec.TopologySpreadConstraints) > 0 {
		return false
	}
	return pl.defaultSelector(p) == nil
}
