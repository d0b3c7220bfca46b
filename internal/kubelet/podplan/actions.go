package podplan

import (
	"fmt"
	"strings"
	"time"

	"github.com/gantry-project/gantry/internal/journal"
)

// Action is one thing to do. The set is sealed: PrepareVolumes, CreateSandbox, StopSandbox,
// RemoveSandbox, Start, Stop, Resize, RemoveContainer, Release.
type Action interface {
	Line() string // for people and transcripts
	action()
}

// PrepareVolumes makes the Pod's cgroup, directories and volumes ready. It can be repeated.
type PrepareVolumes struct{}

// CreateSandbox makes the Pod's sandbox.
type CreateSandbox struct {
	Attempt  uint32
	Parallel bool // it may begin while the PrepareVolumes right before it is under way, and is given up when that fails
}

// StopSandbox stops a sandbox and gives its addresses back. Changed marks one that died under its
// Pod and is replaced.
type StopSandbox struct {
	ID      string
	Changed bool
}

// RemoveSandbox forgets a stopped sandbox and what is left in it.
type RemoveSandbox struct{ ID string }

// Kind says which list of the Pod's spec a container comes from.
type Kind int

// Kinds of containers.
const (
	App Kind = iota
	Init
	Sidecar
	Ephemeral
)

// Start makes sure of the image, makes the container, starts it and runs its postStart hook.
type Start struct {
	Name       string
	Kind       Kind
	Attempt    int
	Sandbox    string
	CrashDelay time.Duration // noted on the container: the wait after it has ended
}

// Kill says how one container is to be stopped.
type Kill struct {
	ID, Name string
	Kind     Kind
	Grace    time.Duration // for preStop and TERM together, from the moment the action begins
	// the stop begins when all of lower order have ended, or when its grace is used up; its preStop
	// hook begins at once
	Order         int
	Event         string // text of the Killing event
	Cause         string // for the journal
	StopSignal    string // of the container, as the runtime says; empty when it does not
	Immediate     bool   // signals do not wait for the runtime
	RunPreStop    bool   // run preStop
	LastContainer bool   // the Pod ends with it
	Restart       bool   // it is started again however it ends
	BackOff       bool   // it would be started again, but its back-off has time left
}

// Stop stops containers side by side.
type Stop struct{ Kills []Kill }

// Resize gives running containers the sizes that the Pod's spec has. The Pod's cgroup is widened
// before and, if FinalizePodCgroup says so, brought to its own size after.
type Resize struct {
	Containers        []ResizedContainer
	FinalizePodCgroup bool
}

// ResizedContainer is a container that gets its new size.
type ResizedContainer struct{ ID, Name string }

// RemoveContainer forgets a container that has ended, or one that was never started.
type RemoveContainer struct{ ID, Name string }

// UnprepareResources has drivers undo what they prepared for the Pod's resource claims.
type UnprepareResources struct{}

// Release takes volumes, cgroup and directories away, and with Logs the Pod's logs.
type Release struct{ Logs bool } // Logs: the directory of logs too

func (PrepareVolumes) action()  {}
func (CreateSandbox) action()   {}
func (StopSandbox) action()     {}
func (RemoveSandbox) action()   {}
func (Start) action()           {}
func (Stop) action()            {}
func (Resize) action()          {}
func (RemoveContainer) action() {}
func (Release) action()         {}

func (UnprepareResources) action() {}

// Line prints the action.
func (UnprepareResources) Line() string { return "unprepare resources" }

// Line prints the action.
func (PrepareVolumes) Line() string { return "furnish" }

// Line prints the action.
func (a CreateSandbox) Line() string {
	if a.Attempt == 0 {
		return "create sandbox"
	}
	return fmt.Sprintf("create sandbox (attempt %d)", a.Attempt)
}

// Line prints the action.
func (a StopSandbox) Line() string { return "stop sandbox " + a.ID }

// Line prints the action.
func (a RemoveSandbox) Line() string { return "remove sandbox " + a.ID }

// Line prints the action.
func (a Start) Line() string {
	s := "start " + [...]string{"", "init ", "sidecar ", "ephemeral "}[a.Kind] + a.Name
	if a.Attempt > 0 {
		s += fmt.Sprintf(" (restart %d)", a.Attempt)
	}
	return s
}

// Line prints the action.
func (a Stop) Line() string {
	var parts []string
	for _, k := range a.Kills {
		s := fmt.Sprintf("%s grace %s", k.Name, k.Grace)
		if k.Order > 0 {
			s += fmt.Sprintf(" wave %d", k.Order)
		}
		parts = append(parts, s)
	}
	return "stop " + strings.Join(parts, ", ") + ": " + a.Kills[0].Cause
}

// Line prints the action.
func (a Resize) Line() string {
	var names []string
	for _, c := range a.Containers {
		names = append(names, c.Name)
	}
	switch {
	case len(names) == 0 && a.FinalizePodCgroup:
		return "resize the Pod"
	case len(names) == 0:
		return "widen the Pod"
	}
	return "resize " + strings.Join(names, ", ")
}

// Line prints the action.
func (a RemoveContainer) Line() string { return "remove container " + a.Name + " " + a.ID }

// Line prints the action.
func (a Release) Line() string {
	if a.Logs {
		return "release with logs"
	}
	return "release"
}

// Plan is a decision: what to do now, in order, and when to look again although nothing has
// happened (zero: never).
type Plan struct {
	Do    []Action
	Wake  time.Time
	Facts []journal.Fact
	Done  bool // the Pod has been taken off the node as far as was asked
}

// Fact is the plan as the journal keeps it.
func (p Plan) Fact() journal.Planned {
	f := journal.Planned{WakeAt: p.Wake}
	for _, a := range p.Do {
		f.Actions = append(f.Actions, a.Line())
	}
	return f
}

func (p *Plan) wake(at time.Time) {
	if p.Wake.IsZero() || at.Before(p.Wake) {
		p.Wake = at
	}
}
