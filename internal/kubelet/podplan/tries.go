package podplan

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gantry-project/gantry/internal/reason"
)

// Tries is what failed lately, by container name, or SandboxTry and its like. It belongs to the
// Pod's worker; Next only reads it.
type Tries map[string]Try

// Succeeded forgets the failures of an action that was done.
func (t Tries) Succeeded(a Action) { delete(t, tryName(a)) }

// Failed counts a failure of a plan for what was seen at a time, and returns its refusal: the one
// that err wraps, or one with the code of the action. news: it is another one than the last.
func (t Tries) Failed(a Action, err error, seenAt, now time.Time) (refusal *reason.Refusal, news bool) {
	last := t[tryName(a)]
	refusal = refusalOf(err, failureCode(a))
	t[tryName(a)] = Try{Refusal: refusal, Count: last.Count + 1, SeenAt: seenAt, FailedAt: now}
	return refusal, last.Refusal == nil || last.Refusal.Error() != refusal.Error()
}

// StillListed counts it as a failure that the runtime lists what it has removed: it is asked again,
// but not without a pause.
func (t Tries) StillListed(done []Action, seen Observed, now time.Time) {
	for _, a := range done {
		id := ""
		switch a := a.(type) {
		case RemoveContainer:
			id = a.ID
		case RemoveSandbox:
			id = a.ID
		default:
			continue
		}
		if slices.ContainsFunc(seen.Containers, func(c Container) bool { return c.ID == id && c.Sandbox != "" }) ||
			slices.ContainsFunc(seen.Sandboxes, func(s Sandbox) bool { return s.ID == id }) {
			t.Failed(a, fmt.Errorf("the runtime still lists %s", id), seen.At, now)
			return
		}
	}
}

// HealthChanged has the failed starts of other containers tried again soon.
func (t Tries) HealthChanged(container string) {
	for name, try := range t {
		if name != container && IsContainerTry(name) {
			try.Again = true
			t[name] = try
		}
	}
}

// RetryAll has everything that failed tried again at once: what was missing may be there now.
func (t Tries) RetryAll() {
	for name, try := range t {
		try.FailedAt = time.Time{}
		t[name] = try
	}
}

// tryName is under which name failures of an action are counted.
func tryName(a Action) string {
	switch a := a.(type) {
	case Start:
		return a.Name
	case PrepareVolumes:
		return PrepareVolumesTry
	case CreateSandbox:
		return SandboxTry
	case Stop, StopSandbox:
		return StopTry
	case Resize:
		return ResizeTry
	case UnprepareResources:
		return UnprepareTry
	}
	return ReleaseTry
}

func failureCode(a Action) reason.Code {
	switch a.(type) {
	case Start:
		return reason.CreateContainerError
	case PrepareVolumes:
		return reason.FailedMount
	case CreateSandbox:
		return reason.FailedCreatePodSandBox
	case Stop, StopSandbox:
		return reason.FailedStop
	case Resize:
		return reason.ResizeError
	}
	return reason.FailedRelease
}

// refusalOf finds the refusal in an error, or makes one of it.
func refusalOf(err error, code reason.Code) *reason.Refusal {
	var r *reason.Refusal
	if errors.As(err, &r) {
		return r
	}
	return &reason.Refusal{Code: code, By: "kubelet", Detail: err.Error(), Err: err}
}
