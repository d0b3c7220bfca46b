package kubelet_test

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A kubelet that is killed at any point of a stop finishes it when it comes back: the call it was
// killed in hangs until then.
//
// row: TRM-10
// row: TRM-13
func TestKilledAtAnyPointOfAStop(t *testing.T) {
	for _, method := range []string{"StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox",
		"ContainerStatus", "PodSandboxStatus"} {
		for _, lost := range []string{"hang", "drop"} { // the call never came through, or only its answer was lost
			t.Run(method+" "+lost, func(t *testing.T) {
				runTest(t, func(r *rig) {
					r.create(pod("p", scriptContainer("app", runs), scriptContainer("more", runs)))
					r.phase("p", v1.PodRunning)
					if err := r.fake.Fault(method, lost); err != nil {
						t.Fatal(err)
					}
					r.delete("p", 30)
					r.advance(3 * time.Second)
					r.stop()
					if err := r.fake.Fault(method, ""); err != nil {
						t.Fatal(err)
					}
					r.start()
					r.advance(2 * time.Minute)
					r.expectPodGone("p")
					if n := r.fake.Count("RunPodSandbox") + r.fake.Count("StartContainer"); n != 3 {
						t.Errorf("%d sandboxes and containers were started, want 3: nothing starts after stop was "+
							"asked", n)
					}
				})
			})
		}
	}
}

// row: TRM-13
func TestDeletedWhileTheKubeletWasDown(t *testing.T) {
	for _, tc := range []struct {
		name   string
		script string
		forced bool
	}{
		{"with grace", runs, false},
		{"with grace, and ignores TERM", "trap '' TERM; while true; do sleep 1; done", false},
		{"by force", runs, true},
		{"by force, and ignores TERM", "trap '' TERM; while true; do sleep 1; done", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			runTest(t, func(r *rig) {
				r.create(pod("p", scriptContainer("app", tc.script)))
				r.phase("p", v1.PodRunning)
				r.stop()
				if tc.forced {
					if err := r.api.CoreV1().Pods("default").Delete(context.Background(),
						"p", metav1.DeleteOptions{}); err != nil {
						t.Fatal(err)
					}
				} else {
					r.delete("p", 30)
				}
				r.advance(time.Hour)
				r.start()
				r.advance(25 * time.Second)
				if strings.Contains(tc.script, "''") && !tc.forced && r.get("p") == nil {
					t.Error("the grace did not begin anew")
				}
				r.advance(20 * time.Second)
				r.expectPodGone("p")
			})
		})
	}
}

// A runtime that is restarted during the wait breaks the stop off; it is retried with the full
// grace.
//
// row: TRM-13
func TestRuntimeRestartGivesTheFullGraceAgain(t *testing.T) {
	for _, grace := range []time.Duration{60, 20} { // of the deletion, in seconds; that of the Pod is 30
		runTest(t, func(r *rig) {
			r.create(pod("p", scriptContainer("app", "trap '' TERM; while true; do sleep 1; done")))
			r.phase("p", v1.PodRunning)
			r.delete("p", int64(grace))
			r.advance(10 * time.Second)
			r.fake.Kill()
			if err := r.fake.Restart(); err != nil {
				t.Fatal(err)
			}
			r.advance((grace - 2) * time.Second)
			if r.get("p") == nil {
				t.Errorf("grace %d s: killed before the full grace period was over\n%s", grace, r.facts.text())
			}
			r.advance(5 * time.Second)
			r.expectPodGone("p")
		})
	}
}

// The sandbox was taken away before the kubelet was killed; what is left of the Pod goes too.
//
// row: KSL-09, TRM-13
func TestHalfStoppedPodIsFinished(t *testing.T) {
	runTest(t, func(r *rig) {
		r.create(pod("p", scriptContainer("app", runs)))
		r.phase("p", v1.PodRunning)
		r.stop()
		r.killSandbox("p")
		r.kill("p")
		r.delete("p", 30)
		r.start()
		r.advance(40 * time.Second)
		r.expectPodGone("p")
	})
}
