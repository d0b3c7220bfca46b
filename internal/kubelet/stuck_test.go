package kubelet_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// stuckIn is what the kubelet says of Pods that hang.
func stuckIn(k *kubelet.Kubelet) string {
	var out []string
	for _, s := range k.StuckPods() {
		out = append(out, s.Pod.Name+" "+string(s.State)+": "+s.What)
	}
	return strings.Join(out, "; ")
}

func (r *rig) faultOf(pod, method, terms string) {
	r.t.Helper()
	if err := r.fake.FaultPod(pod, method, terms); err != nil {
		r.t.Fatal(err)
	}
}

// assertRemoved checks that a Pod is gone from the API, whatever others leave on the node.
func (r *rig) assertRemoved(name string) {
	r.t.Helper()
	if p := r.get(name); p != nil {
		r.t.Errorf("%s is still there: %+v", name, p.Status)
	}
}

// A call that never comes back holds up its own Pod only, and is named with path, step and since
// when until it does.
//
// row: KSL-32
// row: PWK-01
// row: PWK-31
func TestStuckPodIsNamedAndHoldsNobodyUp(t *testing.T) {
	for _, c := range []struct {
		name, method, says string
	}{
		{"sandbox", "RunPodSandbox", "SyncPod: make the sandbox"},
		{"container made", "CreateContainer", "SyncPod: make container app"},
		{"container started", "StartContainer", "SyncPod: start container app"},
		{"looked at", "ContainerStatus", "SyncPod: asking the runtime for the Pod's state"},
	} {
		t.Run(c.name, func(t *testing.T) {
			runTest(t, func(r *rig) {
				r.faultOf("stuck", c.method, "hang")
				r.create(pod("stuck", scriptContainer("app", runs)))
				r.create(pod("free", scriptContainer("app", runs)))
				r.phase("free", v1.PodRunning)
				if got := stuckIn(r.k); got != "" {
					t.Errorf("stuck at once: got %s, want it empty", got)
				}
				r.advance(10 * time.Second)
				if got := stuckIn(r.k); got != "stuck "+c.says {
					t.Errorf("stuck: %q", got)
				}
				_, step, _ := strings.Cut(c.says, ": ")
				if facts := r.facts.text(); strings.Count(facts,
					"stuck Stuck: stuck in SyncPod: "+step+" has not come back since ") != 1 {
					t.Errorf("got %v, want Count 1", facts)
				}
				r.create(pod("later", scriptContainer("app", runs)))
				r.phase("later", v1.PodRunning)
				r.delete("free", 5)
				r.advance(6 * time.Second)
				r.assertRemoved("free")
				r.faultOf("stuck", c.method, "")
				r.advance(5 * time.Minute) // the call is given up
				r.phase("stuck", v1.PodRunning)
				if got := stuckIn(r.k); got != "" ||
					strings.Count(r.facts.text(),
						"stuck Unstuck: no longer stuck in SyncPod: "+step+" came back after ") == 0 {
					t.Errorf("got %q, want it empty and Count other than 0\n%s", got, r.facts.text())
				}
			})
		})
	}
}

// A Pod whose stop hangs says what its deletion waits for; a call that hangs is given up after
// runtimeRequestTimeout and made again.
//
// row: PWK-31
func TestDeletionOfStuckPodNamesItsStep(t *testing.T) {
	runTest(t, func(r *rig) {
		r.create(pod("stuck", scriptContainer("app", runs)))
		r.create(pod("free", scriptContainer("app", runs)))
		r.phase("stuck", v1.PodRunning)
		r.faultOf("stuck", "StopPodSandbox", "hang")
		r.delete("stuck", 5)
		r.delete("free", 5)
		r.advance(8 * time.Second)
		r.assertRemoved("free")
		r.advance(10 * time.Second)
		if got := stuckIn(r.k); got != "stuck SyncTerminatingPod: stop the sandbox" {
			t.Errorf("stuck: %q\n%s", got, r.facts.text())
		}
		r.advance(10 * time.Minute)
		if n := r.fake.Count("StopPodSandbox"); n < 4 {
			t.Errorf("a call that hangs is made %d times within ten minutes, though it is given up after two", n)
		}
		if r.get("stuck") == nil {
			t.Fatal("the Pod is gone from the API though its sandbox is not stopped")
		}
		r.faultOf("stuck", "StopPodSandbox", "")
		r.advance(3 * time.Minute)
		r.expectPodGone("stuck")
	})
}

// A deletion interrupts the call that hangs. Whether the runtime makes the sandbox nevertheless is
// awaited, and said; then the Pod goes.
//
// row: PWK-07
func TestDeletionInterruptsACallThatHangs(t *testing.T) {
	runTest(t, func(r *rig) {
		r.faultOf("stuck", "RunPodSandbox", "hang")
		r.create(pod("stuck", scriptContainer("app", runs)))
		r.advance(20 * time.Second)
		r.delete("stuck", 30)
		r.advance(3 * time.Second)
		if r.get("stuck") == nil || !strings.Contains(r.facts.text(),
			"Waiting: waits for the runtime to drop the sandbox it was making, or to have made it after all") {
			t.Errorf("got %+v, want r.facts.all() with \"Waiting: waits for the runtime to drop the sandbox it …\"\n%s",
				r.get("stuck"), r.facts.text())
		}
		r.advance(podplan.UncertainFor)
		r.expectPodGone("stuck")
	})
}
