package kubelet_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/cri/crifake"
)

const runs = "trap 'exit 0' TERM; while true; do sleep 1; done"

func (r *rig) phase(name string, want v1.PodPhase) *v1.Pod {
	r.t.Helper()
	p := r.get(name)
	if p == nil {
		r.t.Fatalf("Pod %s is gone\n%s", name, r.facts.text())
	}
	if p.Status.Phase != want {
		r.t.Fatalf("phase %s, want %s\n%+v\n%s\n%s\n%s", p.Status.Phase, want, p.Status, r.facts.text(),
			r.events.text(),
			r.fake.Dump())
	}
	return p
}

func (r *rig) expectPodGone(name string) {
	r.t.Helper()
	if p := r.get(name); p != nil {
		r.t.Fatalf("Pod %s is still there: %+v\n%s\n%s", name, p.Status, r.facts.text(), r.fake.Dump())
	}
	if d := r.fake.Dump(); strings.Contains(d, name) {
		r.t.Fatalf("the runtime still has something of %s:\n%s", name, d)
	}
	if left := r.groups.pods(); len(left) != 0 {
		r.t.Fatalf("cgroups left: %v", left)
	}
}

// row: KSL-07
// row: TRM-10
// row: PST-12
func TestOnePodFromCreationToDeletion(t *testing.T) {
	runTest(t, func(r *rig) {
		r.create(pod("web", scriptContainer("app", runs)))
		p := r.phase("web", v1.PodRunning)
		st := p.Status.ContainerStatuses[0]
		if !st.Ready || !*st.Started || !strings.HasPrefix(st.ContainerID, "containerd://") || p.Status.PodIP == "" ||
			p.Status.HostIP != "192.0.2.1" {
			t.Errorf("status %+v", p.Status)
		}
		if got, want := conditions(p),
			"PodReadyToStartContainers=True Initialized=True Ready=True ContainersReady=True "+
				"PodScheduled=True"; got != want {
			t.Errorf("conditions(p) = %q, want %q", got, want)
		}
		calls := r.fake.Count("RunPodSandbox") + r.fake.Count("CreateContainer") + r.fake.Count("StartContainer")
		if calls != 3 {
			t.Errorf("%d changing calls, want one each: %v", calls, r.fake.Calls())
		}
		r.delete("web", 30)
		r.advance(3 * time.Second)
		r.expectPodGone("web")
		want := []string{
			"web spec.containers{app} Normal Pulled: Container image \"busybox:1\" already present on machine and " +
				"can be accessed by the pod",
			"web spec.containers{app} Normal Created: Container created",
			"web spec.containers{app} Normal Started: Container started",
			"web spec.containers{app} Normal Killing: Stopping container app",
		}
		if !slices.Equal(r.events.list, want) {
			t.Errorf("events:\n%s", r.events.text())
		}
	})
}

func conditions(p *v1.Pod) string {
	var out []string
	for _, c := range p.Status.Conditions {
		out = append(out, string(c.Type)+"="+string(c.Status))
	}
	return strings.Join(out, " ")
}

// row: RST-06
// row: RST-07
// row: RST-09
// row: PST-07
func TestCrashLoop(t *testing.T) {
	runTest(t, func(r *rig) {
		r.create(pod("loop", scriptContainer("app", "exit 1")))
		r.advance(500 * time.Millisecond)
		if n := r.get("loop").Status.ContainerStatuses[0].RestartCount; n != 1 {
			t.Errorf("%d restarts a second after the first crash, want 1: at once", n)
		}
		r.advance(4500 * time.Millisecond)
		p := r.phase("loop", v1.PodRunning)
		st := p.Status.ContainerStatuses[0]
		if st.RestartCount != 1 || st.State.Terminated == nil || st.State.Terminated.ExitCode != 1 {
			t.Fatalf("its end is not shown before its back-off: %+v", st)
		}
		r.advance(4 * time.Second)
		p = r.phase("loop", v1.PodRunning)
		st = p.Status.ContainerStatuses[0]
		if st.RestartCount != 1 || st.State.Waiting == nil || st.State.Waiting.Reason != "CrashLoopBackOff" ||
			st.State.Waiting.Message != "back-off 10s restarting failed container=app pod=loop_default(uid-loop)" ||
			st.LastTerminationState.Terminated.ExitCode != 1 {
			t.Fatalf(`got %+v, want RestartCount 1, Reason CrashLoopBackOff, Message "back-off 10s restarting failed `+
				`container=app pod=loop_…" and ExitCode 1`, st)
		}
		if n := r.events.count(
			"BackOff: Back-off restarting failed container app in pod loop_default(uid-loop)"); n != 1 {
			t.Errorf("%d BackOff events", n)
		}
		for _, gap := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
			before := r.get("loop").Status.ContainerStatuses[0].RestartCount
			wait := gap - 6
			if gap == 10 {
				wait = 0 // nine seconds are over
			}
			r.advance(wait * time.Second)
			if n := r.get("loop").Status.ContainerStatuses[0].RestartCount; n != before {
				t.Fatalf("restarted before its back-off of %ds was over", gap)
			}
			if gap >= 40 { // it is shown from 18 s on
				w := r.get("loop").Status.ContainerStatuses[0].State.Waiting
				want := fmt.Sprintf("back-off %s restarting failed container=app pod=loop_default(uid-loop)",
					gap*time.Second)
				if w == nil || w.Reason != "CrashLoopBackOff" || w.Message != want {
					t.Errorf("in the gap of %ds: waiting %+v, want CrashLoopBackOff, %s", gap, w, want)
				}
			}
			r.advance(6 * time.Second)
			if n := r.get("loop").Status.ContainerStatuses[0].RestartCount; n != before+1 {
				t.Fatalf("%d restarts after a gap of %ds, want %d", n, gap, before+1)
			}
		}
		if n := strings.Count(r.fake.Dump(), "app"); n > 10 {
			t.Errorf("dead containers pile up:\n%s", r.fake.Dump())
		}
	})
}

// row: RST-08
func TestCleanRunningForgivesCrashes(t *testing.T) {
	runTest(t, func(r *rig) {
		r.create(pod("calm", scriptContainer("app", "sleep 601; exit 1")))
		r.advance(4 * 605 * time.Second)
		if n := r.get("calm").Status.ContainerStatuses[0].RestartCount; n != 4 {
			t.Fatalf("%d restarts, want 4: each at once", n)
		}
	})
}

// row: RST-02
// row: PST-04
// row: PST-05
func TestRestartPolicies(t *testing.T) {
	for _, c := range []struct {
		policy   v1.RestartPolicy
		exit     string
		restarts int32
		phase    v1.PodPhase
	}{
		{v1.RestartPolicyAlways, "0", 1, v1.PodRunning}, {v1.RestartPolicyAlways, "1", 1, v1.PodRunning},
		{v1.RestartPolicyOnFailure, "0", 0, v1.PodSucceeded}, {v1.RestartPolicyOnFailure, "1", 1, v1.PodRunning},
		{v1.RestartPolicyNever, "0", 0, v1.PodSucceeded}, {v1.RestartPolicyNever, "1", 0, v1.PodFailed},
	} {
		t.Run(string(c.policy)+c.exit, func(t *testing.T) {
			runTest(t, func(r *rig) {
				p := pod("p", scriptContainer("app", "exit "+c.exit))
				p.Spec.RestartPolicy = c.policy
				r.create(p)
				r.advance(3 * time.Second)
				if n := r.phase("p", c.phase).Status.ContainerStatuses[0].RestartCount; n != c.restarts {
					t.Errorf("%d restarts, want %d", n, c.restarts)
				}
			})
		})
	}
}

// row: ISE-01
// row: ISE-02
// row: PST-20
// row: PWK-20, PWK-23, PWK-32
func TestInitContainersRunInOrder(t *testing.T) {
	runTest(t, func(r *rig) {
		p := pod("p", scriptContainer("web", runs), scriptContainer("app", runs)) // the spec's order, not the names'
		p.Spec.InitContainers = []v1.Container{scriptContainer("i1", "sleep 2"), scriptContainer("i2", "sleep 2")}
		r.create(p)
		got := r.phase("p", v1.PodPending)
		if c := got.Status.Conditions[1]; c.Status != v1.ConditionFalse ||
			c.Message != "containers with incomplete status: [i1 i2]" {
			t.Errorf(`got %+v, want Status ConditionFalse and Message "containers with incomplete status: [i1 i2]"`, c)
		}
		if w := got.Status.ContainerStatuses[0].State.Waiting; w == nil || w.Reason != "PodInitializing" {
			t.Errorf("got %+v, want Reason PodInitializing", got.Status.ContainerStatuses[0])
		}
		r.advance(2 * time.Second)
		if c := r.phase("p", v1.PodPending).Status.Conditions[1]; c.Message != "containers with incomplete status: "+
			"[i2]" {
			t.Errorf(`got %+v, want Message "containers with incomplete status:"`, c)
		}
		r.advance(2 * time.Second)
		r.phase("p", v1.PodRunning)
		if s := started(r); s != "i1 i2 web app" {
			t.Errorf("started %s, want the init containers and then the others, each in the order of the spec", s)
		}
		if first := r.fake.Calls()[0].Method; first != "RunPodSandbox" {
			t.Errorf("the runtime was first asked for %s, want RunPodSandbox", first)
		}
	})
}

// started lists the containers in the order of their starts.
func started(r *rig) string {
	var out []string
	for _, l := range strings.Split(r.facts.text(), "\n") {
		if _, rest, ok := strings.Cut(l, "ContainerStarted: container "); ok {
			out = append(out, strings.Fields(rest)[0])
		}
	}
	return strings.Join(out, " ")
}

// Of a Pod that has had several sandboxes none is left, nor of one that never came to run.
//
// row: TRM-10
func TestEverySandboxOfAPodGoes(t *testing.T) {
	runTest(t, func(r *rig) {
		r.create(pod("web", scriptContainer("app", runs)))
		r.create(pod("waits", v1.Container{Name: "app", Image: "nowhere:1"}))
		r.phase("web", v1.PodRunning)
		for range 2 {
			r.killSandbox("web")
			r.advance(3 * time.Second)
			r.phase("web", v1.PodRunning)
		}
		if d := r.fake.Dump(); strings.Count(d, "pod default/web") < 2 || !strings.Contains(d, "pod default/waits") {
			t.Fatalf("got sandboxes\n%s\nwant an old one of web, and one of waits", d)
		}
		r.delete("web", 30)
		r.delete("waits", 30)
		r.advance(5 * time.Second)
		r.expectPodGone("web")
		r.expectPodGone("waits")
	})
}

// row: ISE-08
// row: PWK-18
// row: CRI-08
func TestSandboxDies(t *testing.T) {
	runTest(t, func(r *rig) {
		p := pod("p", scriptContainer("app", runs))
		p.Spec.InitContainers = []v1.Container{scriptContainer("i1", "exit 0"), scriptContainer("side", runs),
			scriptContainer("i2", "exit 0")}
		p.Spec.InitContainers[1].RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		r.create(p)
		ip := r.phase("p", v1.PodRunning).Status.PodIP
		r.killSandbox("p")
		r.advance(3 * time.Second)
		got := r.phase("p", v1.PodRunning)
		if got.Status.PodIP == ip || got.Status.ContainerStatuses[0].RestartCount != 1 {
			t.Errorf("got %+v, want PodIP other than %v and RestartCount 1", got.Status, ip)
		}
		for _, c := range got.Status.InitContainerStatuses {
			if c.RestartCount != 1 {
				t.Errorf("%s: got %+v, want RestartCount 1", c.Name, c)
			}
		}
		if s := started(r); s != "i1 side i2 app i1 side i2 app" {
			t.Errorf("started %s", s)
		}
		if d := r.fake.Dump(); !strings.Contains(d, "pod default/p attempt=1 ready") ||
			!strings.Contains(d, "pod default/p attempt=0 stopped") {
			t.Errorf("got sandboxes\n%s\nwant attempt 1 ready after attempt 0", d)
		}
		defer func() { // and once more, at the end
			r.killSandbox("p")
			r.advance(30 * time.Second)
			if d := r.fake.Dump(); !strings.Contains(d, "pod default/p attempt=2 ready") {
				t.Errorf("got sandboxes\n%s\nwant attempt 2 ready after the second death", d)
			}
		}()
		if r.events.count("Normal SandboxChanged: Pod sandbox changed, it will be killed and re-created.") != 1 {
			t.Errorf(`got %v, want 1 times "Normal SandboxChanged: Pod sandbox changed, it will be…"`, r.events.text())
		}
	})
}

// A Pod whose init containers have left no record goes on, also under a new kubelet.
//
// row: ISE-11
func TestLostRecordsOfInitContainersRestartNothing(t *testing.T) {
	for name, policy := range map[string]v1.RestartPolicy{"Always": v1.RestartPolicyAlways,
		"OnFailure": v1.RestartPolicyOnFailure, "Never": v1.RestartPolicyNever} {
		runTest(t, func(r *rig) {
			p := pod("p", scriptContainer("app", runs), scriptContainer("more", runs))
			p.Spec.RestartPolicy = policy
			p.Spec.InitContainers = []v1.Container{scriptContainer("i1", "exit 0"), scriptContainer("i2", "exit 0")}
			r.create(p)
			before := r.phase("p", v1.PodRunning).Status
			for _, restart := range []bool{false, true} {
				for _, c := range before.InitContainerStatuses {
					r.removeContainer(strings.TrimPrefix(c.ContainerID, "containerd://"))
				}
				if restart {
					r.stop()
					r.start()
				}
				r.advance(2 * time.Minute)
				after := r.phase("p", v1.PodRunning).Status
				for i, c := range after.ContainerStatuses {
					if c.RestartCount != 0 || c.ContainerID != before.ContainerStatuses[i].ContainerID {
						t.Errorf("%s: got %+v, want the container as it was", name, c)
					}
				}
				if s := started(r); s != "i1 i2 app more" {
					t.Errorf("%s: started %s, want nothing more than at first", name, s)
				}
			}
		})
	}
}

// Whatever the kind of a container, with probes and without, in one Pod or another, it runs on.
//
// row: KSL-08
// row: OPS-17
func TestKubeletRestartTouchesNothing(t *testing.T) {
	runTest(t, func(r *rig) {
		p := pod("p", scriptContainer("app", runs), scriptContainer("second", runs))
		ready := &v1.Probe{
			ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", "exit 0"}}},
			PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
		}
		p.Spec.Containers[0].ReadinessProbe = ready
		p.Spec.InitContainers = []v1.Container{scriptContainer("init", "exit 0"), scriptContainer("side", runs)}
		p.Spec.InitContainers[1].RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		p.Spec.InitContainers[1].StartupProbe = ready
		r.create(p)
		r.create(pod("q", scriptContainer("app", runs)))
		r.advance(30 * time.Second)
		before := []*v1.Pod{r.phase("p", v1.PodRunning), r.phase("q", v1.PodRunning)}
		if !before[0].Status.ContainerStatuses[0].Ready {
			t.Fatalf("got %+v, want Ready true", before[0].Status)
		}
		r.stop()
		if err := r.fake.Fault("ExecSync", "delay(5s)"); err != nil {
			t.Fatal(err)
		}
		w := r.writes()
		r.start()
		r.advance(2 * time.Minute)
		for _, was := range before {
			is := r.phase(was.Name, v1.PodRunning)
			if d := cmp.Diff(was.Status, is.Status); d != "" {
				t.Errorf("%s after a restart (-before +after):\n%s", was.Name, d)
			}
		}
		if n := r.writes(); n != w {
			t.Errorf("%d status writes after a restart, want none\n%s", n-w, r.facts.text())
		}
		for call, want := range map[string]int{"StartContainer": 5, "StopContainer": 0, "RunPodSandbox": 2,
			"StopPodSandbox": 0} {
			if n := r.fake.Count(call); n != want {
				t.Errorf("%s was called %d times, want %d", call, n, want)
			}
		}
	})
}

func (r *rig) writes() (n int) {
	for _, a := range r.api.Actions() {
		if a.GetVerb() == "patch" && a.GetSubresource() == "status" {
			n++
		}
	}
	return n
}

// row: KSL-12
func TestPodGoneWhileTheKubeletWasAway(t *testing.T) {
	runTest(t, func(r *rig) {
		r.create(pod("p", scriptContainer("app", runs)))
		r.phase("p", v1.PodRunning)
		r.stop()
		if err := r.api.CoreV1().Pods("default").Delete(context.Background(), "p", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		r.start()
		r.advance(5 * time.Second)
		r.expectPodGone("p")
	})
}

func TestPodOfTheSameNameWaitsForTheOldOne(t *testing.T) {
	runTest(t, func(r *rig) {
		r.create(pod("p", scriptContainer("app", "trap '' TERM; while true; do sleep 1; done")))
		r.phase("p", v1.PodRunning)
		grace := int64(8)
		old := r.get("p")
		old.Spec.TerminationGracePeriodSeconds = &grace
		if _, err := r.api.CoreV1().Pods("default").Update(context.Background(), old, metav1.UpdateOptions{}); err !=
			nil {
			t.Fatal(err)
		}
		if err := r.api.CoreV1().Pods("default").Delete(context.Background(), "p", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		retry := pod("p", scriptContainer("app", runs))
		retry.UID = types.UID("uid-again")
		r.create(retry)
		if n := r.fake.Count("RunPodSandbox"); n != 1 {
			t.Fatalf("%d sandboxes while the old Pod ends", n)
		}
		r.advance(9 * time.Second)
		r.phase("p", v1.PodRunning)
	})
}

// row: ISE-24
func TestSidecarsStopLastAndBackwards(t *testing.T) {
	runTest(t, func(r *rig) {
		slow := "trap 'sleep 1; exit 0' TERM; while true; do sleep 1; done"
		always := v1.ContainerRestartPolicyAlways
		p := pod("p", scriptContainer("app", slow))
		p.Spec.InitContainers = []v1.Container{scriptContainer("s1", slow), scriptContainer("s2", slow)}
		p.Spec.InitContainers[0].RestartPolicy, p.Spec.InitContainers[1].RestartPolicy = &always, &always
		r.create(p)
		r.phase("p", v1.PodRunning)
		if s := started(r); s != "s1 s2 app" {
			t.Errorf("started %s", s)
		}
		r.delete("p", 20)
		r.advance(10 * time.Second)
		r.expectPodGone("p")
		var order []string
		for _, l := range strings.Split(r.facts.text(), "\n") {
			if _, rest, ok := strings.Cut(l, "StopStep: container "); ok {
				order = append(order, strings.Join(strings.Fields(rest)[:2], ""))
			}
		}
		if got, want := strings.Join(order, " "),
			"app:TERM: app:stopped s2:TERM: s2:stopped s1:TERM: s1:stopped"; got != want {
			t.Errorf("order = %q, want %q", got, want)
		}
	})
}

// row: TRM-05
// row: TRM-06
// row: TRM-07
func TestPreStopUsesTheGraceUp(t *testing.T) {
	runTest(t, func(r *rig) {
		var boxes []v1.Container
		for name, hook := range map[string]v1.LifecycleHandler{
			"app":  {Exec: &v1.ExecAction{Command: []string{"sh", "-c", "sleep 60"}}},
			"more": {Sleep: &v1.SleepAction{Seconds: 60}},
		} {
			c := scriptContainer(name, "trap '' TERM; while true; do sleep 1; done")
			c.Lifecycle = &v1.Lifecycle{PreStop: &hook}
			boxes = append(boxes, c)
		}
		r.create(pod("p", boxes...))
		r.phase("p", v1.PodRunning)
		r.delete("p", 5)
		r.advance(4900 * time.Millisecond)
		if got := r.steps(); got != "" {
			t.Errorf("got %q while the hooks run, want no TERM", got)
		}
		r.advance(300 * time.Millisecond)
		for _, c := range boxes {
			r.expectFact(c.Name + ": TERM: KILL after 2 s")
		}
		r.advance(1600 * time.Millisecond)
		if r.get("p") == nil || strings.Contains(r.facts.text(), " exited") {
			t.Errorf("got Pod %v and the facts %s before the one-off extension of 2 s was over, want it running",
				r.get("p"), r.facts.text())
		}
		r.advance(1500 * time.Millisecond)
		r.expectPodGone("p")
		if r.events.count("Warning FailedPreStopHook: PreStopHook failed") != 1 {
			t.Errorf(`got %v, want "Warning FailedPreStopHook: PreStopHook failed" of the command alone`,
				r.events.text())
		}
	})
}

// row: ISE-04
func TestMissingConfigMapIsTakenWhenItComes(t *testing.T) {
	runTest(t, func(r *rig) {
		c := scriptContainer("app", runs)
		c.Env = []v1.EnvVar{
			{Name: "A", ValueFrom: &v1.EnvVarSource{
				ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "cfg"},
					Key: "a"}}}}
		r.create(pod("p", c))
		r.advance(15 * time.Second)
		w := r.phase("p", v1.PodPending).Status.ContainerStatuses[0].State.Waiting
		if w == nil || w.Reason != "CreateContainerConfigError" || w.Message != `configmap "cfg" not found` {
			t.Fatalf("got %+v, want Reason \"CreateContainerConfigError\" and Message 'configmap \"cfg\" not "+
				"found'\n%s", w, r.facts.text())
		}
		if _, err := r.api.CoreV1().ConfigMaps("default").Create(context.Background(),
			&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cfg"},
				Data: map[string]string{"a": "1"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		r.advance(100 * time.Millisecond)
		r.phase("p", v1.PodRunning)
	})
}

// What a container ended with is what the runtime said of it, in its state and, once it runs again,
// in its last one.
//
// row: PST-29
// row: PST-31
func TestEndOfAContainerIsTheRuntimes(t *testing.T) {
	for _, c := range []struct {
		script, reason string
		code           int32
	}{{"sleep 2; exit 3", "Error", 3}, {"sleep 2; exit 0", "Completed", 0}, {"sleep 2; oom", "OOMKilled", 137}} {
		runTest(t, func(r *rig) {
			r.create(pod("again", scriptContainer("app", c.script)))
			once := pod("once", scriptContainer("app", c.script))
			once.Spec.RestartPolicy = v1.RestartPolicyNever
			r.create(once)
			r.advance(2 * time.Second)
			again := r.phase("again", v1.PodRunning).Status.ContainerStatuses[0]
			for what, e := range map[string]*v1.ContainerStateTerminated{
				"the state":      r.get("once").Status.ContainerStatuses[0].State.Terminated,
				"the last state": again.LastTerminationState.Terminated,
			} {
				if e == nil || e.ExitCode != c.code || e.Reason != c.reason ||
					e.FinishedAt.Sub(e.StartedAt.Time) != 2*time.Second {
					t.Errorf("%s: %s is %+v, want %s %d after two seconds", c.script, what, e, c.reason, c.code)
				}
			}
			if again.RestartCount != 1 || again.State.Running == nil {
				t.Errorf("%s: got %+v, want it running again", c.script, again)
			}
		})
	}
}

// row: PST-05
func TestCommandThatIsNotThere(t *testing.T) {
	runTest(t, func(r *rig) {
		r.fake.On(crifake.Match{Pod: "p"},
			crifake.Script{StartError: `exec: "nosuch": executable file not found in $PATH`})
		p := pod("p", scriptContainer("app", ""))
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		r.create(p)
		r.advance(2 * time.Second)
		st := r.phase("p", v1.PodFailed).Status.ContainerStatuses[0]
		if e := st.State.Terminated; e == nil || e.ExitCode != 128 || e.Reason != "StartError" {
			t.Errorf("got %+v, want ExitCode 128 and Reason StartError", st)
		}
		if r.events.count("Warning Failed: Error: ") != 1 {
			t.Errorf(`got %v, want 1 times "Warning Failed: Error:"`, r.events.text())
		}
	})
}

// Wherever in a Pod's start the kubelet is killed, the next one goes on from there.
//
// row: KSL-09
func TestKilledOnTheWayOfAStart(t *testing.T) {
	for _, fault := range []string{"RunPodSandbox hang", "RunPodSandbox drop", "PullImage hang", "CreateContainer hang",
		"CreateContainer drop", "StartContainer hang", "StartContainer drop"} {
		for _, withInit := range []bool{false, true} {
			runTest(t, func(r *rig) {
				method, action, _ := strings.Cut(fault, " ")
				r.fake.SetRegistry([]crifake.Image{{Names: []string{"one:1"}}})
				if err := r.fake.Fault(method, "1*ok->1*"+action+"->ok"); err != nil { // the second time
					t.Fatal(err)
				}
				r.create(pod("before", scriptContainer("app", runs)))
				p := pod("p", scriptContainer("a", runs), scriptContainer("b", runs))
				p.Spec.Containers[1].Image = "one:1"
				if withInit {
					p.Spec.InitContainers = []v1.Container{scriptContainer("i", "exit 0")}
				}
				r.create(p)
				r.stop()
				r.start()
				r.advance(time.Minute)
				s := r.phase("p", v1.PodRunning).Status
				for _, st := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
					if n := strings.Count(r.fake.Dump(), st.Name+" attempt="); st.RestartCount != 0 || n != 1 {
						t.Errorf("%s: %s: %d restarts, %d containers, want 0 and 1\n%s", fault, st.Name,
							st.RestartCount, n, r.fake.Dump())
					}
				}
				if n := strings.Count(r.fake.Dump(), "pod default/p "); n != 1 {
					t.Errorf("%s: %d sandboxes\n%s", fault, n, r.fake.Dump())
				}
			})
		}
	}
}

// row: KSL-09
func TestCreatedButNotStarted(t *testing.T) {
	runTest(t, func(r *rig) {
		if err := r.fake.Fault("StartContainer", "1*hang->ok"); err != nil {
			t.Fatal(err)
		}
		r.create(pod("p", scriptContainer("app", runs)))
		r.advance(time.Second)
		r.stop()
		r.start()
		r.advance(5 * time.Second)
		st := r.phase("p", v1.PodRunning).Status.ContainerStatuses[0]
		if n := strings.Count(r.fake.Dump(), "app attempt="); st.RestartCount != 0 || n != 1 {
			t.Errorf("restarts %d, %d containers, want 0 and 1\n%s", st.RestartCount, n, r.fake.Dump())
		}
	})
}

// Nothing of a Pod is started once it is being deleted, nor when the API has its end.
//
// row: PWK-07
func TestNothingStartsOnceAPodEnds(t *testing.T) {
	runTest(t, func(r *rig) {
		for _, phase := range []v1.PodPhase{v1.PodSucceeded, v1.PodFailed} {
			p := pod(strings.ToLower(string(phase)), scriptContainer("app", runs))
			p.Status.Phase = phase
			r.create(p)
		}
		r.advance(time.Minute)
		if n := r.fake.Count("RunPodSandbox"); n != 0 {
			t.Errorf("%d sandboxes of Pods that have ended", n)
		}
		slow := scriptContainer("slow", "trap '' TERM; while true; do sleep 1; done")
		r.create(pod("p", slow, scriptContainer("app", "trap 'exit 1' TERM; while true; do sleep 1; done")))
		r.phase("p", v1.PodRunning)
		r.delete("p", 60)
		r.advance(50 * time.Second)
		if st := r.phase("p", v1.PodRunning).Status.ContainerStatuses; st[0].State.Terminated == nil ||
			st[1].State.Running == nil || r.fake.Count("StartContainer") != 2 {
			t.Errorf("%d starts, got %+v, want app ended and not started again", r.fake.Count("StartContainer"), st)
		}
		r.advance(11 * time.Second)
		r.expectPodGone("p")
	})
}

// A stop that fails is tried again, and the Pod ends as any other.
//
// row: PWK-10
func TestAStopThatFailsIsTriedAgain(t *testing.T) {
	for _, method := range []string{"StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"} {
		runTest(t, func(r *rig) {
			r.create(pod("p", scriptContainer("app", runs)))
			r.phase("p", v1.PodRunning)
			if err := r.fake.Fault(method, "2*error(not now)->ok"); err != nil {
				t.Fatal(err)
			}
			r.delete("p", 5)
			r.advance(time.Minute)
			if p := r.get("p"); p != nil || r.fake.Count(method) < 3 {
				t.Errorf("%s fails twice: asked %d times, the Pod is %+v, want three times and gone", method,
					r.fake.Count(method), p)
			}
		})
	}
}

// Containers wait for their volumes: one that cannot be mounted yet keeps them from being made.
//
// row: PWK-12
func TestNoContainerIsMadeBeforeItsVolume(t *testing.T) {
	runTest(t, func(r *rig) {
		c := scriptContainer("app", runs)
		c.VolumeMounts = []v1.VolumeMount{{Name: "cfg", MountPath: "/cfg"}}
		p := pod("p", c, scriptContainer("other", runs))
		p.Spec.Volumes = []v1.Volume{{Name: "cfg", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
			LocalObjectReference: v1.LocalObjectReference{Name: "late"}}}}}
		r.create(p)
		r.advance(time.Minute)
		if n := r.fake.Count("CreateContainer"); n != 0 || r.phase("p", v1.PodPending) == nil {
			t.Errorf("%d containers made though a volume is not there", n)
		}
		if _, err := r.api.CoreV1().ConfigMaps("default").Create(context.Background(), &v1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "late"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		r.advance(3 * time.Minute)
		r.phase("p", v1.PodRunning)
	})
}

// A Pod's containers are pulled for, made and started one after the other.
//
// row: CRI-05
// row: PWK-15
func TestOrderOfSeveralContainers(t *testing.T) {
	runTest(t, func(r *rig) {
		r.fake.SetRegistry([]crifake.Image{{Names: []string{"one:1"}, Pull: time.Second},
			{Names: []string{"two:1"}, Pull: time.Second}})
		p := pod("p", scriptContainer("a", runs), scriptContainer("b", runs), scriptContainer("c", runs))
		p.Spec.Containers[0].Image, p.Spec.Containers[1].Image = "one:1", "two:1"
		p.Spec.InitContainers = []v1.Container{scriptContainer("i", "exit 0")}
		r.create(p)
		r.advance(10 * time.Second)
		r.phase("p", v1.PodRunning)
		var got []string
		for _, c := range r.fake.Calls() {
			name := ""
			switch q := c.Request.(type) {
			case *runtimeapi.PullImageRequest:
				name = " " + q.Image.Image
			case *runtimeapi.CreateContainerRequest:
				name = " " + q.Config.Metadata.Name
			}
			got = append(got, c.Method+name)
		}
		want := []string{"RunPodSandbox", "CreateContainer i", "StartContainer", "PullImage one:1", "CreateContainer a",
			"StartContainer", "PullImage two:1", "CreateContainer b", "StartContainer", "CreateContainer c",
			"StartContainer"}
		if !slices.Equal(got, want) {
			t.Errorf("calls\n%v, want\n%v", got, want)
		}
	})
}

// A runtime that is started again keeps its containers, and the kubelet goes on with it.
//
// row: CRI-19
func TestARestartedRuntimeKeepsItsContainers(t *testing.T) {
	runTest(t, func(r *rig) {
		r.create(pod("p", scriptContainer("app", runs)))
		before := r.phase("p", v1.PodRunning).Status.ContainerStatuses[0]
		r.fake.Kill()
		r.advance(20 * time.Second)
		if err := r.fake.Restart(); err != nil {
			t.Fatal(err)
		}
		r.advance(3 * time.Minute)
		if st := r.phase("p", v1.PodRunning).Status.ContainerStatuses[0]; st.ContainerID != before.ContainerID ||
			st.RestartCount != 0 || !st.State.Running.StartedAt.Equal(&before.State.Running.StartedAt) ||
			r.fake.Count("RunPodSandbox") != 1 || r.fake.Count("StartContainer") != 1 {
			t.Errorf("%d sandboxes, %d starts, got %+v, want it as before: %+v", r.fake.Count("RunPodSandbox"),
				r.fake.Count("StartContainer"), st, before)
		}
		r.create(pod("next", scriptContainer("app", runs)))
		r.phase("next", v1.PodRunning)
	})
}

// row: PWK-07
func TestDeletionInterruptsThePull(t *testing.T) {
	runTest(t, func(r *rig) {
		r.fake.SetRegistry([]crifake.Image{{Names: []string{"slow:1"}, Pull: time.Hour}})
		c := scriptContainer("app", runs)
		c.Image = "slow:1"
		r.create(pod("p", c))
		r.phase("p", v1.PodPending)
		r.delete("p", 30)
		r.advance(3 * time.Second)
		r.expectPodGone("p")
		if n := r.fake.Count("CreateContainer"); n != 0 {
			t.Errorf("%d containers made after the stop was asked for", n)
		}
	})
}

// row: KSL-29
// row: PWK-19
func TestLivenessKillsAndRestarts(t *testing.T) {
	runTest(t, func(r *rig) {
		c := scriptContainer("app", runs)
		c.LivenessProbe = &v1.Probe{
			ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", "exit 1"}}},
			PeriodSeconds: 1, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 2}
		r.create(pod("p", c, scriptContainer("healthy", runs)))
		r.advance(6 * time.Second)
		all := r.phase("p", v1.PodRunning).Status.ContainerStatuses
		if other := all[1]; other.RestartCount != 0 || other.State.Running == nil {
			t.Errorf("a healthy container became %+v", other)
		}
		st := all[0]
		if st.RestartCount != 2 {
			t.Errorf("%d restarts, want 2: the first two are free\n%s", st.RestartCount, r.facts.text())
		}
		if n := r.events.count("Normal Killing: Container app failed liveness probe, will be restarted"); n < 2 {
			t.Errorf("got %s, want n at least 2", r.events.text())
		}
	})
}

// row: ISE-13
func TestActiveDeadline(t *testing.T) {
	runTest(t, func(r *rig) {
		s := int64(5)
		p := pod("p", scriptContainer("app", runs))
		p.Spec.ActiveDeadlineSeconds = &s
		r.create(p)
		r.phase("p", v1.PodRunning)
		r.advance(2 * time.Second)
		r.stop() // a new kubelet counts on
		r.start()
		r.advance(2 * time.Second)
		r.phase("p", v1.PodRunning)
		r.advance(2 * time.Second)
		got := r.phase("p", v1.PodFailed)
		if got.Status.Reason != "DeadlineExceeded" ||
			got.Status.Message != "Pod was active on the node longer than the specified deadline" {
			t.Errorf(`got %+v, want Reason DeadlineExceeded and Message "Pod was active on the node longer than the `+
				`specified d…"`, got.Status)
		}
		if r.events.count("Normal DeadlineExceeded: Pod was active on the node longer than the specified "+
			"deadline") != 3 {
			t.Errorf("got %v, want count 3", r.events.text())
		}
	})
}

// row: PWK-01
// row: KSL-32
func TestOneStuckPodHoldsNobodyUp(t *testing.T) {
	runTest(t, func(r *rig) {
		if err := r.fake.Fault("RunPodSandbox", "1*hang->ok"); err != nil {
			t.Fatal(err)
		}
		r.create(pod("stuck", scriptContainer("app", runs)))
		r.create(pod("free", scriptContainer("app", runs)))
		r.phase("free", v1.PodRunning)
		r.phase("stuck", v1.PodPending)
	})
}

// row: KSL-31
func TestSettledPodCausesNoCalls(t *testing.T) {
	for name, settle := range map[string]func(*rig){
		"runs":               func(*rig) {},
		"its sandbox died":   func(r *rig) { r.killSandbox("p"); r.advance(time.Minute) },
		"a container ended":  func(r *rig) { r.kill("p"); r.advance(time.Minute) },
		"the kubelet is new": func(r *rig) { r.stop(); r.start(); r.advance(time.Minute) },
	} {
		runTest(t, func(r *rig) {
			r.create(pod("p", scriptContainer("app", runs)))
			r.phase("p", v1.PodRunning)
			settle(r)
			r.phase("p", v1.PodRunning)
			calls, writes := len(r.fake.Calls()), r.writes()
			r.advance(50 * time.Second)
			if n := len(r.fake.Calls()); n != calls {
				t.Errorf("%s: %d calls of an idle Pod: %v", name, n-calls, r.fake.Calls()[calls:])
			}
			if n := r.writes(); n != writes {
				t.Errorf("%s: %d writes of an idle Pod", name, n-writes)
			}
		})
	}
}

// row: ISE-20
// row: ISE-23
func TestSidecarsStartupProbeHoldsTheNextOnesUp(t *testing.T) {
	runTest(t, func(r *rig) {
		always := v1.ContainerRestartPolicyAlways
		p := pod("p", scriptContainer("app", runs))
		side := scriptContainer("side", runs)
		side.RestartPolicy = &always
		side.StartupProbe = &v1.Probe{
			ProbeHandler:        v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", "exit 0"}}},
			InitialDelaySeconds: 5, PeriodSeconds: 1, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3}
		p.Spec.InitContainers = []v1.Container{side, scriptContainer("i1", "exit 0")}
		r.create(p)
		if s := started(r); s != "side" {
			t.Fatalf("started %s before the startup probe succeeded", s)
		}
		r.advance(6 * time.Second)
		r.phase("p", v1.PodRunning)
		if s := started(r); s != "side i1 app" {
			t.Errorf("started %s", s)
		}
	})
}

// A container that cannot be started holds up neither those named after it nor those named before.
//
// row: ISE-33
func TestAppContainersHaveNoOrder(t *testing.T) {
	for _, missing := range []int{0, 1} {
		runTest(t, func(r *rig) {
			boxes := []v1.Container{scriptContainer("first", runs), scriptContainer("second", runs)}
			boxes[missing].Image = "nowhere:1"
			r.create(pod("p", boxes...))
			r.advance(time.Second)
			if s := started(r); s != boxes[1-missing].Name {
				t.Errorf("started %q while %s has no image", s, boxes[missing].Name)
			}
			r.fake.SetRegistry([]crifake.Image{{Names: []string{"nowhere:1"}}})
			r.advance(time.Minute)
			r.phase("p", v1.PodRunning)
			if s := started(r); s != boxes[1-missing].Name+" "+boxes[missing].Name {
				t.Errorf("started %q", s)
			}
		})
	}
}

// Also when the container is started again, and whatever the hook does.
//
// row: PST-28
func TestRunningIsReportedAfterPostStart(t *testing.T) {
	runTest(t, func(r *rig) {
		r.fake.On(crifake.Match{}, crifake.Script{Sh: "sleep 10; exit 1",
			Exec: func(*crifake.Process, []string) (int, bool) { time.Sleep(4 * time.Second); return 0, true }})
		defer r.advance(4 * time.Second) // a hook that runs comes to its end in the bubble
		c := scriptContainer("app", "")
		c.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"warm"}}}}
		r.create(pod("p", c))
		r.advance(2 * time.Second)
		if st := r.phase("p", v1.PodPending).Status.ContainerStatuses[0]; st.State.Waiting == nil {
			t.Errorf("%+v while the command of the hook runs", st.State)
		}
		r.advance(3 * time.Second)
		if st := r.phase("p", v1.PodRunning).Status.ContainerStatuses[0]; st.State.Running == nil ||
			st.State.Running.StartedAt.IsZero() {
			t.Errorf("got %+v after the command of the hook, want running with its start", st.State)
		}
		r.advance(7 * time.Second) // it has ended, was started again, and its hook runs
		if st := r.phase("p", v1.PodRunning).Status.ContainerStatuses[0]; st.State.Running != nil ||
			r.fake.Count("StartContainer") != 2 {
			t.Errorf("%+v while the hook of the second start runs", st.State)
		}
		r.advance(3 * time.Second)
		if st := r.phase("p", v1.PodRunning).Status.ContainerStatuses[0]; st.State.Running == nil {
			t.Errorf("got %+v after the hook of the second start, want running", st.State)
		}
	})
	runTest(t, func(r *rig) {
		c := scriptContainer("app", runs)
		c.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 3}}}
		r.create(pod("p", c))
		if st := r.phase("p", v1.PodPending).Status.ContainerStatuses[0]; st.State.Waiting == nil {
			t.Errorf("%+v while the hook runs", st)
		}
		r.advance(3 * time.Second)
		if st := r.phase("p", v1.PodRunning).Status.ContainerStatuses[0]; st.State.Running == nil || !st.Ready {
			t.Errorf("got %+v, want Ready true", st)
		}
	})
}

// row: TRM-04
// row: TRM-09
func TestContainerThatIgnoresTERMIsKilledAtTheDeadline(t *testing.T) {
	runTest(t, func(r *rig) {
		r.create(pod("p", scriptContainer("app", ignoresTERM), scriptContainer("well", runs),
			scriptContainer("more", ignoresTERM)))
		r.phase("p", v1.PodRunning)
		r.delete("p", 5)
		r.advance(4900 * time.Millisecond)
		if r.get("p") == nil || strings.Contains(r.facts.text(), "app exited") ||
			strings.Contains(r.facts.text(), "more exited") {
			t.Errorf("got Pod %v and the facts %s before the grace period was over, want it running", r.get("p"),
				r.facts.text())
		}
		r.expectFact("well exited with code 0")
		r.advance(time.Second)
		r.expectPodGone("p")
		r.expectFact("app exited with code 137")
		r.expectFact("more exited with code 137")
	})
}

// row: TRM-13
func TestKubeletRestartGivesTheFullGraceAgain(t *testing.T) {
	for _, grace := range []time.Duration{60, 30, 20} { // of the deletion, in seconds; that of the Pod is 30
		runTest(t, func(r *rig) {
			r.create(pod("p", scriptContainer("app", "trap '' TERM; while true; do sleep 1; done")))
			r.phase("p", v1.PodRunning)
			r.delete("p", int64(grace))
			r.advance(10 * time.Second)
			r.stop()
			r.start()
			r.advance((grace - 2) * time.Second)
			if r.get("p") == nil {
				t.Errorf("grace %d s: killed before the full grace period was over", grace)
			}
			r.advance(3 * time.Second)
			r.expectPodGone("p")
		})
	}
}

// row: PST-08
// row: TRM-11
// row: TRM-12
func TestTerminalPhaseIsReportedBeforeDeletion(t *testing.T) {
	init := pod("init", scriptContainer("app", runs))
	init.Spec.InitContainers = []v1.Container{scriptContainer("first", runs)}
	image := pod("image", scriptContainer("app", runs))
	image.Spec.Containers[0].Image = "nowhere:1"
	once := pod("once", scriptContainer("app", "exit 3"), scriptContainer("web", runs))
	once.Spec.RestartPolicy = v1.RestartPolicyNever
	for _, p := range []*v1.Pod{pod("p", scriptContainer("app", runs)), init, image, once,
		pod("loop", scriptContainer("app", "exit 1"))} {
		runTest(t, func(r *rig) {
			recording := r.recordStates("default")
			r.create(p)
			r.advance(9 * time.Second)
			r.delete(p.Name, 30)
			r.advance(5 * time.Second)
			states := recording.states()
			if n := len(states); n < 2 || states[n-1] != p.Name+" gone" ||
				!strings.HasPrefix(states[n-2], p.Name+" Succeeded") &&
					!strings.HasPrefix(states[n-2], p.Name+" Failed") {
				t.Errorf("got states %s, want %s gone at the end and its terminal phase just before",
					strings.Join(states, "\n"), p.Name)
			}
		})
	}
	for script, phase := range map[string]string{runs: "Succeeded", ignoresTERM: "Failed",
		"trap 'exit 3' TERM; while true; do sleep 1; done": "Failed", "exit 1": "Failed"} {
		runTest(t, func(r *rig) {
			recording := r.recordStates("default")
			r.create(pod("p", scriptContainer("app", script), scriptContainer("well", runs)))
			r.delete("p", 3)
			r.advance(5 * time.Second)
			states := recording.states()
			if n := len(states); n < 2 || states[n-1] != "p gone" || !strings.HasPrefix(states[n-2], "p "+phase) {
				t.Errorf("%s: got states %s, want p gone at the end and its terminal phase, %s, just before", script,
					strings.Join(states, "\n"), phase)
			}
		})
	}
}

// row: PWK-19
func TestOnlyTheChangedContainerIsReplaced(t *testing.T) {
	runTest(t, func(r *rig) {
		r.fake.AddImage(crifake.Image{Names: []string{"other:1"}})
		r.create(pod("p", scriptContainer("a", runs), scriptContainer("b", runs)))
		p := r.phase("p", v1.PodRunning).DeepCopy()
		p.Spec.Containers[0].Image = "other:1"
		if _, err := r.api.CoreV1().Pods("default").Update(context.Background(), p, metav1.UpdateOptions{}); err !=
			nil {
			t.Fatal(err)
		}
		r.advance(3 * time.Second)
		if s := started(r); s != "a b a" {
			t.Errorf("started %s", s)
		}
		if r.events.count("Normal Killing: Container a definition changed, will be restarted") != 1 {
			t.Errorf(`got %v, want 1 times "Normal Killing: Container a definition changed, will b…"`, r.events.text())
		}
	})
}
