package kubelet_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// stopScenario is a Pod's stop and when the kubelet is killed in it.
type stopScenario struct {
	pod   *v1.Pod
	grace int64
	kills []fault
}

// fault is a kill: so long after the last start of the kubelet, which then is away for a while.
type fault struct {
	after, away time.Duration
	call, lost  string // a call of the runtime's that hangs or loses its answers until the kill; empty: none
}

func drawEnding(t *rapid.T) stopScenario {
	e := stopScenario{pod: pod("p"), grace: rapid.Int64Range(1, 40).Draw(t, "grace")}
	ms := func(max int, label string) time.Duration {
		return time.Duration(rapid.IntRange(0, max).Draw(t, label)) * time.Millisecond
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "containers") {
		name := fmt.Sprintf("c%d", i)
		c := scriptContainer(name,
			rapid.SampledFrom([]string{runs, "trap '' TERM; while true; do sleep 1; done", "sleep 3; exit 0",
				"sleep 2; exit 1"}).Draw(t, name))
		switch rapid.IntRange(0, 3).Draw(t, name+" preStop") {
		case 0:
			c.Lifecycle = &v1.Lifecycle{
				PreStop: &v1.LifecycleHandler{
					Sleep: &v1.SleepAction{Seconds: rapid.Int64Range(1, 60).Draw(t, name+" sleeps")}}}
		case 1:
			c.Lifecycle = &v1.Lifecycle{
				PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", "sleep 5"}}}}
		}
		if i > 0 && rapid.Bool().Draw(t, name+" is a sidecar") {
			always := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
			e.pod.Spec.InitContainers = append(e.pod.Spec.InitContainers, c)
			continue
		}
		e.pod.Spec.Containers = append(e.pod.Spec.Containers, c)
	}
	e.pod.Spec.TerminationGracePeriodSeconds = &e.grace
	for i := range rapid.IntRange(1, 3).Draw(t, "kills") {
		b := fault{after: ms(int(e.grace+5)*1000, fmt.Sprint("kill ", i)), away: ms(20000, fmt.Sprint("away ", i))}
		if rapid.Bool().Draw(t, fmt.Sprint("fault ", i)) {
			b.call = rapid.SampledFrom([]string{"StopContainer", "StopPodSandbox", "RemoveContainer",
				"RemovePodSandbox", "ContainerStatus", "PodSandboxStatus"}).Draw(t, fmt.Sprint("call ", i))
			b.lost = rapid.SampledFrom([]string{"hang", "drop"}).Draw(t, fmt.Sprint("lost ", i))
		}
		e.kills = append(e.kills, b)
	}
	return e
}

// play runs the termination and returns what went wrong; empty: nothing.
func (e stopScenario) play(r *rig) string {
	r.create(e.pod)
	r.advance(time.Second)
	r.delete("p", e.grace)
	asked := r.fake.Count("RunPodSandbox") + r.fake.Count("StartContainer")
	for _, b := range e.kills {
		if b.call != "" {
			if err := r.fake.Fault(b.call, b.lost); err != nil {
				return err.Error()
			}
		}
		r.advance(b.after)
		r.stop()
		if b.call != "" {
			if err := r.fake.Fault(b.call, ""); err != nil {
				return err.Error()
			}
		}
		r.advance(b.away)
		r.start()
	}
	r.advance(time.Duration(e.grace)*time.Second + 20*time.Second) // a kubelet that comes back gives the grace anew
	var wrong []string
	if n := r.fake.Count("RunPodSandbox") + r.fake.Count("StartContainer"); n != asked {
		wrong = append(wrong, fmt.Sprintf("%d sandboxes and containers were started after the stop was asked", n-asked))
	}
	if p := r.get("p"); p != nil {
		wrong = append(wrong, fmt.Sprintf("the API still has it: %s", p.Status.Phase))
	}
	if d := r.fake.Dump(); strings.Contains(d, "default/p") {
		wrong = append(wrong, "the runtime still has:\n"+d)
	}
	if left := r.groups.pods(); len(left) > 0 {
		wrong = append(wrong, fmt.Sprint("cgroups are left: ", left))
	}
	return strings.Join(wrong, "\n")
}

// Whenever and however often the kubelet is killed while a Pod ends, whatever the Pod is: nothing
// is started any more, and the next kubelet ends all of it in time.
//
// row: TRM-10
func TestKilledAnyTimeInAStop(t *testing.T) {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue { // a whole kubelet each
		if err := checks.Value.Set("20"); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = checks.Value.Set(checks.DefValue) }()
	}
	rapid.Check(t, func(rt *rapid.T) {
		e := drawEnding(rt)
		wrong := ""
		runTest(t, func(r *rig) { wrong = e.play(r) })
		if wrong != "" {
			rt.Fatalf("wrong = %q, want nothing", wrong)
		}
	})
}
