package explain

import (
	"fmt"
	"time"

	"github.com/gantry-project/gantry/internal/journal"
)

// lateProbeThreshold is how long a late probe is worth mentioning.
const lateProbeThreshold = 10 * time.Minute

// withLateProbe adds that the kubelet ran a probe late: the cause may be a busy node, not a slow
// container.
func withLateProbe(in In, a Answer) Answer {
	if p, at, ok := newest[journal.Probed](in, func(p journal.Probed) bool { return p.Late > 0 }); ok &&
		in.Now.Sub(at) <= lateProbeThreshold {
		a.Facts = append(a.Facts,
			fmt.Sprintf("the %s probe of container %s was asked %s late, %s ago: the node is busy; lateness is not "+
				"held against the container", p.Probe, p.Container, p.Late, ago(in.Now.Sub(at))))
	}
	return a
}
