package podworker

import (
	"errors"
	"time"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/reason"
)

// failedTries are what failed lately, by the name of podplan.In.Tries.
type failedTries map[string]podplan.Try

// succeeded forgets the failures of an action that was done.
func (t failedTries) succeeded(a podplan.Action) { delete(t, tryName(a)) }

// failed counts a failure; news tells that it is another one than the last.
func (t failedTries) failed(a podplan.Action, err error, now time.Time) (refusal *reason.Refusal, news bool) {
	last := t[tryName(a)]
	refusal = refusalOf(err, failureCode(a))
	t[tryName(a)] = podplan.Try{Refusal: refusal, Count: last.Count + 1, FailedAt: now}
	return refusal, last.Refusal == nil || last.Refusal.Error() != refusal.Error()
}

// retryAll has everything that failed tried again at once: what was missing may be there now.
func (t failedTries) retryAll() {
	for name, try := range t {
		try.FailedAt = time.Time{}
		t[name] = try
	}
}

// tryName is under which name failures of an action are counted.
func tryName(a podplan.Action) string {
	switch a := a.(type) {
	case podplan.Start:
		return a.Name
	case podplan.PrepareVolumes:
		return podplan.PrepareVolumesTry
	case podplan.CreateSandbox:
		return podplan.SandboxTry
	case podplan.Stop, podplan.StopSandbox:
		return podplan.StopTry
	case podplan.Resize:
		return podplan.ResizeTry
	}
	return podplan.ReleaseTry
}

func failureCode(a podplan.Action) reason.Code {
	switch a.(type) {
	case podplan.Start:
		return reason.CreateContainerError
	case podplan.PrepareVolumes:
		return reason.FailedMount
	case podplan.CreateSandbox:
		return reason.FailedCreatePodSandBox
	case podplan.Stop, podplan.StopSandbox:
		return reason.FailedStop
	case podplan.Resize:
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
