package dynamicresources

import (
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

var _ place.Quiet = (*Plugin)(nil)

// Quiet tells whether the Pod has no claims.
func (*Plugin) Quiet(p *v1.Pod, _ *snapshot.Snapshot) bool { return len(p.Spec.ResourceClaims) == 0 }
