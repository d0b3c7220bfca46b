package kubelet_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Containers of one Pod back off each by itself, of whichever kind, and a restart of the kubelet
// forgets no wait.
//
// row: RST-06
// row: RST-07
// row: RST-09
// row: ISE-01
// row: ISE-02
// row: ISE-21
func TestEachContainerBacksOffByItself(t *testing.T) {
	runTest(t, func(r *rig) {
		p := pod("p", scriptContainer("ill", "exit 1"), scriptContainer("later", "sleep 30; exit 1"),
			scriptContainer("well", runs))
		side := scriptContainer("side", "exit 0")
		side.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		p.Spec.InitContainers = []v1.Container{scriptContainer("first", "exit 0")}
		init := pod("init", scriptContainer("app", runs))
		init.Spec.InitContainers = []v1.Container{scriptContainer("fails", "exit 1"), scriptContainer("next", "exit 0")}
		beside := pod("beside", scriptContainer("app", runs))
		beside.Spec.InitContainers = []v1.Container{side}
		for _, x := range []*v1.Pod{p, init, beside} {
			r.create(x)
		}
		restarts := func(pod, container string) int32 {
			s := r.get(pod).Status
			for _, c := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
				if c.Name == container {
					return c.RestartCount
				}
			}
			t.Fatalf("no status of %s in %s", container, pod)
			return 0
		}
		expect := func(when string, ill, later, fails, side int32) {
			t.Helper()
			for _, x := range []struct {
				pod, container string
				want           int32
			}{{"p", "ill", ill}, {"p", "later", later}, {"p", "well", 0}, {"p", "first", 0},
				{"init", "fails", fails}, {"beside", "side", side}, {"beside", "app", 0}} {
				if got := restarts(x.pod, x.container); got != x.want {
					t.Errorf("%s: %d restarts of %s, want %d", when, got, x.container, x.want)
				}
			}
		}
		r.advance(6 * time.Second)
		expect("the first crash", 1, 0, 1, 1)
		r.stop()
		r.start()
		r.advance(time.Second)
		expect("a restart of the kubelet", 1, 0, 1, 1)
		r.advance(6 * time.Second)
		expect("the second", 2, 0, 2, 2)
		r.advance(14 * time.Second)
		expect("the third not before 20 s", 2, 0, 2, 2)
		r.advance(7 * time.Second)
		expect("the third, and the first of the one that ran half a minute", 3, 1, 3, 3)
		s := r.phase("init", v1.PodPending).Status
		for _, c := range append(s.InitContainerStatuses[1:], s.ContainerStatuses...) {
			if c.State.Waiting == nil || c.ContainerID != "" {
				t.Errorf("%s: got %+v behind an init container that fails, want it not started", c.Name, c)
			}
		}
	})
}
