package podworker

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// What an earlier kubelet left holds its name until it is gone: ended because its source has
// another Pod, found to have vanished, or not come for long enough.
//
// row: KSL-19
func TestLeftoverPodHoldsItsName(t *testing.T) {
	started := func(w *testRuntime) bool { return slices.Contains(w.actionsSoFar(), "new start c ") }
	for name, c := range map[string]struct {
		leave func(*testRuntime, *Pool)
		frees func(*Pool) // nil: it is free by itself after a time
		after time.Duration
	}{
		"another of its source comes": {
			leave: func(_ *testRuntime, p *Pool) { p.ReserveName(testPod("old", ""), "api") },
		},
		"it has vanished": {
			leave: func(_ *testRuntime, p *Pool) { p.ReserveName(testPod("old", ""), "file") },
			frees: func(p *Pool) { p.ReleaseVanishedNames(func(types.UID) bool { return false }) },
		},
		"it is swept": {
			leave: func(_ *testRuntime, p *Pool) { p.ReserveName(testPod("old", ""), "file") },
			frees: func(p *Pool) {
				p.ReleaseVanishedNames(func(types.UID) bool { return true })
				p.UpdatePod(UpdatePodOptions{Pod: testPod("old", ""), Source: SourceRuntime, Gone: true,
					Termination: &podplan.Termination{}})
			},
		},
		"it does not come": {
			leave: func(_ *testRuntime, p *Pool) { p.ReserveNameForUncertainSandbox(testPod("old", "")) },
			after: podplan.UncertainFor,
		},
		"it is there, and might have come": {
			leave: func(_ *testRuntime, p *Pool) {
				p.ReserveName(testPod("old", ""), "file")
				p.ReserveNameForUncertainSandbox(testPod("old", ""))
				time.Sleep(2 * podplan.UncertainFor)
			},
			frees: func(p *Pool) { p.ReleaseVanishedNames(func(types.UID) bool { return false }) },
		},
		"two were left": {
			leave: func(_ *testRuntime, p *Pool) {
				p.ReserveName(testPod("old", ""), "file")
				p.ReserveNameForUncertainSandbox(testPod("older", ""))
			},
			frees: func(p *Pool) { p.ReleaseVanishedNames(func(types.UID) bool { return false }) },
			after: podplan.UncertainFor,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, p := begin(t, map[string]time.Duration{"stop sandbox s": time.Second})
				w.seen["old"] = podplan.Observed{Sandboxes: []podplan.Sandbox{{ID: "s", Ready: true}}}
				c.leave(w, p)
				p.UpdatePod(UpdatePodOptions{Pod: testPod("new", ""), Source: "api"})
				synctest.Wait()
				if started(w) {
					t.Fatalf("it does not wait: %q", w.actionsSoFar())
				}
				if p.ShouldPodContentBeRemoved("old") {
					t.Error("got its directories and cgroup to be removed, want them kept while its name is held")
				}
				if c.frees != nil {
					c.frees(p)
				}
				if c.after > 0 {
					time.Sleep(c.after - time.Millisecond)
					synctest.Wait()
					if started(w) {
						t.Fatalf("it does not wait: %q", w.actionsSoFar())
					}
				}
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if !started(w) {
					t.Errorf("it never begins: %q", w.actionsSoFar())
				}
				if !p.ShouldPodContentBeRemoved("old") {
					t.Error("got its directories and cgroup kept, want them to be removed")
				}
				if ended := slices.Contains(w.actionsSoFar(), "old stop sandbox s "); ended !=
					(name == "another of its source comes" || name == "it is swept") {
					t.Errorf("got calls %q, want the sandbox stopped: %t", w.actionsSoFar(), !ended)
				}
			})
		})
	}
}

// A Pod that was never admitted here, because it was first seen ending, holds its name too.
func TestEndingPodHoldsItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := begin(t, map[string]time.Duration{"stop sandbox s": time.Minute})
		w.seen["old"] = podplan.Observed{Sandboxes: []podplan.Sandbox{{ID: "s", Ready: true}}}
		p.UpdatePod(UpdatePodOptions{Pod: testPod("old", ""), Source: "api", Termination: &podplan.Termination{}})
		p.UpdatePod(UpdatePodOptions{Pod: testPod("new", ""), Source: "api"})
		time.Sleep(time.Minute - time.Millisecond)
		synctest.Wait()
		if acts := w.actionsSoFar(); slices.Contains(acts, "new furnish ") {
			t.Errorf("it does not wait: %q", acts)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if acts := w.actionsSoFar(); !slices.Contains(acts, "new start c ") {
			t.Errorf("it never begins: %q", acts)
		}
	})
}
