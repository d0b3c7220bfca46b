package podplan

import (
	"slices"
	"time"

	"github.com/gantry-project/gantry/internal/journal"
)

// Doubt is a sandbox that the runtime was making when its maker gave up waiting. Whether it comes nobody can tell: who gives a call up does not hear how it ends.
// Containers need no such doubt: they are made in a sandbox, and end with it.
type Doubt struct {
	Attempt uint32
	GivenUp time.Time // zero: there is no doubt
}

// Settling is how long a runtime may need to drop what it was told not to make after all.
const Settling = 10 * time.Second

// Doubtful tells whether a sandbox that was given up may still come, and until when it is awaited: one that is seen leaves no doubt.
func Doubtful(in In) (until time.Time, yes bool) {
	d := in.Facts.Doubt
	until = d.GivenUp.Add(Settling)
	if d.GivenUp.IsZero() || !in.Now.Before(until) {
		return time.Time{}, false
	}
	seen := slices.ContainsFunc(in.Seen.Sandboxes, func(s Sandbox) bool { return s.Attempt == d.Attempt })
	return until, !seen
}

// doubtful notes that the end of a Pod has to wait for a sandbox that may still come: released too early, its name would be another's when it does.
func doubtful(in In, p *Plan) bool {
	until, yes := Doubtful(in)
	if yes {
		p.wake(until)
		p.Say = append(p.Say, journal.Waiting{
			For: "the runtime to drop the sandbox it was making, or to have made it after all", Since: in.Facts.Doubt.GivenUp,
			Next: "it is stopped if it comes within " + Settling.String() + "; the Pod is released then in any case",
		})
	}
	return yes
}
