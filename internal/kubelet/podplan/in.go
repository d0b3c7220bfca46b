package podplan

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/reason"
)

// In is everything a decision depends on.
type In struct {
	Pod      *v1.Pod
	Observed Observed
	Facts    Facts
	End      *Termination // nil: keep it running
	// forget containers, sandboxes and logs too once it has stopped: the API wants the Pod gone
	Remove bool
	Health map[string]Health // by container name, of running containers
	Tries  Tries
	Limits Limits
	Now    time.Time

	// drivers have prepared devices for the Pod's resource claims, or may have: the Pod has not
	// stopped before they have undone it
	HoldsClaims bool

	Applied Applied // what runs have really been given, while that may differ from the spec
}

// Termination says that the Pod has to end, why and until when.
type Termination struct {
	Cause string // for the journal: deleted, evicted, …
	// status.reason when the Pod fails by it, like Evicted; empty for a deletion. Containers that
	// all end with 0 succeed nevertheless
	Reason      string
	Message     string // status.message
	RequestedAt time.Time
	Grace       time.Duration // from RequestedAt
	// the node is short of something now: signals do not wait for the runtime, which may be slow
	// for the same reason
	Immediate bool
	// message of the condition DisruptionTarget (reason TerminationByKubelet) that comes with the
	// last phase; empty for none
	Victim string
}

// Deadline is when everything has to be over.
func (s Termination) Deadline() time.Time { return s.RequestedAt.Add(s.Grace) }

// Health is what the probes of a running container add up to.
type Health struct {
	Started     bool   // no startup probe, or it succeeded
	Ready       bool   // started, and no readiness probe or it succeeds
	FailedProbe string // "liveness" or "startup" once that probe has failed for good
}

// Try is a failed attempt at something.
type Try struct {
	Refusal  *reason.Refusal // Code is the waiting reason
	Count    int             // failures in a row
	SeenAt   time.Time       // when the Pod was looked at for the plan of the last one
	FailedAt time.Time       // of the last one
	Again    bool            // the health of another container has changed since
}

// Names of tries that are not containers'.
const (
	SandboxTry        = "/sandbox"
	PrepareVolumesTry = "/furnish"
	StopTry           = "/stop"
	ReleaseTry        = "/release"
	ResizeTry         = "/resize"
	UnprepareTry      = "/unprepare"
)

// IsContainerTry tells whether a try is a container's start, and its name the container's.
func IsContainerTry(name string) bool { return !strings.HasPrefix(name, "/") }

// Limits are the times of back-offs; the zero value means upstream's.
type Limits struct {
	FirstCrashDelay time.Duration // 10 s
	MaxCrashDelay   time.Duration // 5 min
}

func (l Limits) first() time.Duration {
	if l.FirstCrashDelay == 0 {
		return min(10*time.Second, l.max())
	}
	return min(l.FirstCrashDelay, l.max())
}

func (l Limits) max() time.Duration {
	if l.MaxCrashDelay == 0 {
		return 5 * time.Minute
	}
	return l.MaxCrashDelay
}

const (
	firstRetry = time.Second
	laterRetry = 10 * time.Second
)

// Next is when to try again: soon after the first failure, then every ten seconds.
func (t Try) Next() time.Time {
	if t.Count <= 1 {
		return t.FailedAt.Add(firstRetry)
	}
	return t.FailedAt.Add(laterRetry)
}

// sandboxNewFor is how long after its creation began a sandbox counts as one that has just become
// ready.
const sandboxNewFor = 5 * time.Second

// newSandbox tells whether the Pod's sandbox had just been made at that time: upstream sees it
// after the first try. A container that had run in it for a second by then was seen with it.
func (in In) newSandbox(at time.Time) bool {
	s := in.Observed.Sandbox()
	return s != nil && at.Sub(s.Created) < sandboxNewFor &&
		!slices.ContainsFunc(in.Observed.Containers, func(c Container) bool {
			return c.Sandbox == s.ID && !c.Started.IsZero() && c.Started.Before(at.Add(-firstRetry))
		})
}

// waitsForRetry tells whether a failed try is not repeated yet, and has the plan wake when it is. A
// container's start is tried again soon when something else of the Pod has just started or ended,
// or its health has changed, else every ten seconds; so does upstream, which tries all containers
// with each look at a Pod that has changed, and sees a change up to a second after it. A later try
// was made for the changes that were seen before it; of the first, none was.
func (in In) waitsForRetry(p *Plan, name string) bool {
	t, failed := in.Tries[name]
	next, unseen := t.Next(), t.SeenAt
	if t.Count <= 1 || unseen.IsZero() {
		unseen = t.FailedAt.Add(-firstRetry)
	}
	switch {
	case name == PrepareVolumesTry:
		next = t.FailedAt.Add(volume.BackOff(t.Count))
	case !IsContainerTry(name):
	case t.Again || in.Observed.othersChanged(name, unseen) || t.Count <= 1 && in.newSandbox(t.FailedAt):
		next = t.FailedAt.Add(firstRetry)
	default:
		next = t.FailedAt.Add(laterRetry)
	}
	if !failed || !in.Now.Before(next) {
		return false
	}
	p.wake(next)
	return true
}
