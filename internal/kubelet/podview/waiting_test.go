package podview

import (
	"testing"
	"time"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	"github.com/gantry-project/gantry/internal/reason"
)

// An image that cannot be pulled shows how the try before ended, as long as pulls fail; any other
// failure shows itself. A try that is looked at again counts once; after a start that went well the
// count begins anew.
func TestWhyAContainerWaits(t *testing.T) {
	type try struct {
		count int
		code  reason.Code
		want  podstatus.WaitingReason
	}
	text := func(code reason.Code, n int) string { return string(code) + string(rune('0'+n)) }
	shows := func(code reason.Code, n int) podstatus.WaitingReason {
		return podstatus.WaitingReason{Reason: string(code), Message: text(code, n)}
	}
	const pull, backOff, other = reason.ErrImagePull, reason.ImagePullBackOff, reason.Code("CreateContainerError")
	for name, tries := range map[string][]try{
		"pulls": {{1, pull, shows(pull, 1)}, {1, pull, shows(pull, 1)}, {2, backOff, shows(pull, 1)},
			{3, pull, shows(backOff, 2)}, {3, pull, shows(backOff, 2)}, {4, backOff, shows(pull, 3)}},
		"others":           {{1, other, shows(other, 1)}, {2, other, shows(other, 2)}},
		"a pull at last":   {{1, other, shows(other, 1)}, {2, pull, shows(pull, 2)}, {3, backOff, shows(pull, 2)}},
		"another at last":  {{1, pull, shows(pull, 1)}, {2, other, shows(other, 2)}},
		"a start between":  {{1, pull, shows(pull, 1)}, {2, backOff, shows(pull, 1)}, {1, pull, shows(pull, 1)}},
		"the count is one": {{3, pull, shows(pull, 3)}, {4, backOff, shows(pull, 3)}},
	} {
		f := failures{}
		for i, x := range tries {
			given := podplan.Try{Count: x.count, Refusal: &reason.Refusal{Code: x.code, Detail: text(x.code, x.count)}}
			f = f.next(given)
			if got := f.shown(given); got != x.want {
				t.Errorf("%s, look %d: got %+v, want %+v", name, i+1, got, x.want)
			}
		}
	}
}

// The event of a back-off is told again after a second, when a container has come, has another
// state, or has other health; not because one is gone.
func TestWhenABackOffIsReportedAgain(t *testing.T) {
	report := func(after time.Duration, edit func(*backOffReport)) backOffReport {
		r := backOffReport{at: time.Unix(100, 0).Add(after),
			states: map[string]podplan.State{"a": podplan.Running, "b": podplan.Exited},
			health: map[string]podplan.Health{"a": {Started: true}}}
		if edit != nil {
			edit(&r)
		}
		return r
	}
	last := report(0, nil)
	changes := map[string]func(*backOffReport){
		"another state": func(r *backOffReport) { r.states["a"] = podplan.Exited },
		"one more":      func(r *backOffReport) { r.states["c"] = podplan.Running },
		"ready":         func(r *backOffReport) { r.health["a"] = podplan.Health{Started: true, Ready: true} },
		"no health":     func(r *backOffReport) { r.health = nil },
	}
	for name, change := range changes {
		if last.outdated(report(repeatedAfter-1, change)) {
			t.Errorf("%s: told again within the second", name)
		}
		if !last.outdated(report(repeatedAfter, change)) {
			t.Errorf("%s: not told again after a second", name)
		}
	}
	for name, change := range map[string]func(*backOffReport){"nothing": nil,
		"one less": func(r *backOffReport) { delete(r.states, "b") }} {
		if last.outdated(report(time.Hour, change)) {
			t.Errorf("%s has changed, and it is told again", name)
		}
	}
}
