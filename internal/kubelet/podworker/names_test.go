package podworker

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// What an earlier kubelet left holds its name until it is gone: ended because its source has another Pod, found to have vanished, or not come for long enough.
func TestWhatWasLeftHoldsItsName(t *testing.T) {
	started := func(w *world) bool { return slices.Contains(w.all(), "new start c ") }
	for name, c := range map[string]struct {
		leave func(*world, *Pool)
		frees func(*Pool) // nil: it is free by itself after a time
		after time.Duration
	}{
		"another of its source comes": {
			leave: func(_ *world, p *Pool) { p.Left(aPod("old", ""), "api") },
		},
		"it has vanished": {
			leave: func(_ *world, p *Pool) { p.Left(aPod("old", ""), "file") },
			frees: func(p *Pool) { p.Vanished(func(types.UID) bool { return false }) },
		},
		"it is swept": {
			leave: func(_ *world, p *Pool) { p.Left(aPod("old", ""), "file") },
			frees: func(p *Pool) {
				p.Vanished(func(types.UID) bool { return true })
				p.Tell(Wish{Pod: aPod("old", ""), Source: SourceRuntime, Gone: true, End: &podplan.End{}})
			},
		},
		"it does not come": {
			leave: func(_ *world, p *Pool) { p.MayCome(aPod("old", "")) },
			after: podplan.Settling,
		},
		"it is there, and might have come": {
			leave: func(_ *world, p *Pool) {
				p.Left(aPod("old", ""), "file")
				p.MayCome(aPod("old", ""))
				time.Sleep(2 * podplan.Settling)
			},
			frees: func(p *Pool) { p.Vanished(func(types.UID) bool { return false }) },
		},
		"two were left": {
			leave: func(_ *world, p *Pool) {
				p.Left(aPod("old", ""), "file")
				p.MayCome(aPod("older", ""))
			},
			frees: func(p *Pool) { p.Vanished(func(types.UID) bool { return false }) },
			after: podplan.Settling,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, p := begin(t, map[string]time.Duration{"stop sandbox s": time.Second})
				w.seen["old"] = podplan.Observed{Sandboxes: []podplan.Sandbox{{ID: "s", Ready: true}}}
				c.leave(w, p)
				p.Tell(Wish{Pod: aPod("new", ""), Source: "api"})
				synctest.Wait()
				if started(w) {
					t.Fatalf("it does not wait: %q", w.all())
				}
				if c.frees != nil {
					c.frees(p)
				}
				if c.after > 0 {
					time.Sleep(c.after - time.Millisecond)
					synctest.Wait()
					if started(w) {
						t.Fatalf("it does not wait: %q", w.all())
					}
				}
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if !started(w) {
					t.Errorf("it never begins: %q", w.all())
				}
				if ended := slices.Contains(w.all(), "old stop sandbox s "); ended != (name == "another of its source comes" || name == "it is swept") {
					t.Errorf("%q", w.all())
				}
			})
		})
	}
}

// Of a Pod that never was admitted here, because its first wish was its end, the name is held too.
func TestThatWhichEndsHoldsItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := begin(t, map[string]time.Duration{"stop sandbox s": time.Minute})
		w.seen["old"] = podplan.Observed{Sandboxes: []podplan.Sandbox{{ID: "s", Ready: true}}}
		p.Tell(Wish{Pod: aPod("old", ""), Source: "api", End: &podplan.End{}})
		p.Tell(Wish{Pod: aPod("new", ""), Source: "api"})
		time.Sleep(time.Minute - time.Millisecond)
		synctest.Wait()
		if acts := w.all(); slices.Contains(acts, "new furnish ") {
			t.Errorf("it does not wait: %q", acts)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if acts := w.all(); !slices.Contains(acts, "new start c ") {
			t.Errorf("it never begins: %q", acts)
		}
	})
}
