package podplan

import (
	"slices"
	"time"

	"github.com/gantry-project/gantry/internal/journal"
)

// UncertainSandbox is a sandbox that the runtime was making when its maker gave up waiting. Whether
// it comes nobody can tell: who gives a call up does not learn how it ends. Containers need no such
// doubt: they are made in a sandbox, and end with it.
type UncertainSandbox struct {
	Attempt     uint32
	AbandonedAt time.Time // zero: there is no doubt
}

// UncertainFor is how long a runtime may need to drop what it was asked not to make after all. A
// sandbox that comes later stands beside the Pod that has the name until the runtime's event tells
// of it, and is stopped then; nothing is started in it. The runtime does not refuse it: the names
// that it reserves have the uid in them.
const UncertainFor = 10 * time.Second

// SandboxUncertain tells whether a sandbox that was given up may still come, and until when it is
// awaited: one that is seen leaves no doubt.
func SandboxUncertain(in In) (until time.Time, uncertain bool) {
	d := in.Facts.UncertainSandbox
	until = d.AbandonedAt.Add(UncertainFor)
	if d.AbandonedAt.IsZero() || !in.Now.Before(until) {
		return time.Time{}, false
	}
	seen := slices.ContainsFunc(in.Observed.Sandboxes, func(s Sandbox) bool { return s.Attempt == d.Attempt })
	return until, !seen
}

// waitForUncertainSandbox notes that the end of a Pod has to wait for a sandbox that may still
// come: released too early, its name would be another's when it does.
func waitForUncertainSandbox(in In, p *Plan) bool {
	until, uncertain := SandboxUncertain(in)
	if uncertain {
		p.wake(until)
		p.Facts = append(p.Facts, journal.Waiting{
			For:   "the runtime to drop the sandbox it was making, or to have made it after all",
			Since: in.Facts.UncertainSandbox.AbandonedAt,
			Next: "it is stopped if it comes within " + UncertainFor.String() + "; the Pod is released then in any " +
				"case",
		})
	}
	return uncertain
}
