package kubelet_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/cri/crifake"
)

// The events of two failures of hooks, and of a stop.
const (
	postStartFailed = "Warning FailedPostStartHook: PostStartHook failed"
	preStopFailed   = "Warning FailedPreStopHook: PreStopHook failed"
	hookKills       = "Normal Killing: FailedPostStartHook"
	stopping        = "Normal Killing: Stopping container app"
)

// A postStart hook that runs when its Pod is deleted comes to its end, and what it says counts;
// the Pod's grace period limits it. So does upstream, without the limit.
func TestAPostStartHookRunsOnWhenItsPodIsDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration
		exit  int
		grace int64
		gone  time.Duration // at the latest, from the deletion
		want  []string
		never []string
	}{
		"it succeeds": {4 * time.Second, 0, 8, 3500 * time.Millisecond,
			[]string{stopping}, []string{postStartFailed, hookKills}},
		"it fails": {4 * time.Second, 3, 8, 3500 * time.Millisecond,
			[]string{postStartFailed, hookKills}, []string{stopping}},
		"it is too long": {30 * time.Second, 0, 5, 8 * time.Second,
			[]string{postStartFailed}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(r *rig) {
				r.fake.On(crifake.Match{}, crifake.Script{Sh: runs,
					Exec: func(*crifake.Process, []string) (int, bool) { time.Sleep(c.takes); return c.exit, true }})
				defer r.advance(c.takes) // it comes to its end in the bubble
				app, other := scriptContainer("app", ""), scriptContainer("other", "")
				app.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{
					Command: []string{"warm"}}}}
				r.create(pod("p", app, other))
				r.advance(time.Second)
				r.delete("p", c.grace)
				r.advance(c.gone)
				r.expectPodGone("p")
				for _, e := range c.want {
					if r.events.count(e) != 1 {
						t.Errorf("got\n%s\nwant once %q", r.events.text(), e)
					}
				}
				for _, e := range append(c.never, "spec.containers{other} Normal Started") {
					if r.events.count(e) != 0 {
						t.Errorf("got\n%s\nwant no %q", r.events.text(), e)
					}
				}
			})
		})
	}
}

// A preStop hook is given up when the grace period is over: one that only sleeps has not failed by
// that, a command goes on until its container is dead.
func TestAPreStopHookThatTheGracePeriodEnds(t *testing.T) {
	for name, c := range map[string]struct {
		hook   v1.LifecycleHandler
		takes  time.Duration
		failed int
	}{
		"sleeps":             {v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 60}}, 0, 0},
		"a command":          {execHook(), 60 * time.Second, 1},
		"just long enough":   {execHook(), 4 * time.Second, 0},
		"ends with the TERM": {execHook(), 5 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(r *rig) {
				r.fake.On(crifake.Match{}, crifake.Script{Sh: ignoresTERM,
					Exec: func(*crifake.Process, []string) (int, bool) { time.Sleep(c.takes); return 0, true }})
				defer r.advance(c.takes)
				app := scriptContainer("app", "")
				app.Lifecycle = &v1.Lifecycle{PreStop: &c.hook}
				r.create(pod("p", app))
				r.phase("p", v1.PodRunning)
				r.delete("p", 4)
				r.advance(7 * time.Second)
				r.expectPodGone("p")
				if got := r.events.count(preStopFailed); got != c.failed {
					t.Errorf("got %d times %q, want %d\n%s", got, preStopFailed, c.failed,
						strings.TrimSpace(r.events.text()))
				}
			})
		})
	}
}

func execHook() v1.LifecycleHandler {
	return v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}
}

// A container that is being started when its Pod is deleted is started, and stopped then: one that
// the runtime gives up half started would be shown as failed. So does upstream.
func TestAStartUnderWayComesToItsEnd(t *testing.T) {
	runTest(t, func(r *rig) {
		r.faultOf("p", "StartContainer", "delay(5s)")
		r.create(pod("p", scriptContainer("app", runs)))
		r.advance(time.Second)
		recording := r.recordStates("default")
		r.delete("p", 8)
		r.advance(6 * time.Second)
		r.expectPodGone("p")
		if got := strings.Join(recording.states(), "\n"); !strings.Contains(got, "[app terminated,Completed,0") ||
			r.events.count("Started: Container started") != 1 || r.events.count(stopping) != 1 {
			t.Errorf("got\n%s\n%s\nwant app started, stopped and ended with 0", got, r.events.text())
		}
	})
}
