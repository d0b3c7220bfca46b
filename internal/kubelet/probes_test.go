package kubelet_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/internal/kubelet"
)

// probeServer are what exec probes answer: those whose command is named here fail.
type probeServer struct {
	mu    sync.Mutex
	bad   map[string]bool
	asked map[string]int
}

// serveProbes makes all containers run for good and answer their probes by the returned value.
func (r *rig) serveProbes(bad ...string) *probeServer {
	a := &probeServer{bad: map[string]bool{}, asked: map[string]int{}}
	a.fail(bad...)
	r.fake.On(crifake.Match{}, crifake.Script{Sh: runs, Exec: func(_ *crifake.Process, cmd []string) (int, bool) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked[cmd[0]]++
		if a.bad[cmd[0]] {
			return 1, true
		}
		return 0, true
	}})
	return a
}

// fail makes those named fail, and only those.
func (a *probeServer) fail(names ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.bad)
	for _, n := range names {
		a.bad[n] = true
	}
}

func (a *probeServer) count() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.asked)
}

func probeSpec(name string, period, failures int32) *v1.Probe {
	return &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{name}}},
		PeriodSeconds: period, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: failures}
}

func readyIs(p *v1.Pod) v1.ConditionStatus {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status
		}
	}
	return ""
}

// Each kind that is not defined counts as a success, whatever the others say, of an app container
// and of a sidecar.
//
// row: PRB-17
func TestEachKindThatIsNotDefinedIsASuccess(t *testing.T) {
	alone := func(kind string, period, failures int32) func(*v1.Container) {
		return func(c *v1.Container) {
			p := probeSpec("x", period, failures)
			switch kind {
			case "liveness":
				c.LivenessProbe = p
			case "readiness":
				c.ReadinessProbe = p
			default:
				c.StartupProbe = p
			}
		}
	}
	for name, c := range map[string]struct {
		set            func(*v1.Container)
		bad            string
		started, ready bool
	}{
		"liveness alone":                {alone("liveness", 100, 3), "", true, true},
		"liveness alone, which fails":   {alone("liveness", 1, 30), "x", true, true},
		"readiness alone":               {alone("readiness", 1, 3), "", true, true},
		"readiness alone, which fails":  {alone("readiness", 1, 3), "x", true, false},
		"startup alone":                 {alone("startup", 1, 3), "", true, true},
		"startup alone, not yet":        {alone("startup", 1, 30), "x", false, false},
		"startup alone, not yet at all": {alone("startup", 100, 3), "", false, false},
	} {
		for _, kind := range []string{"app container", "sidecar"} {
			runTest(t, func(r *rig) {
				r.serveProbes(c.bad)
				p := pod("p", scriptContainer("app", runs))
				if kind == "sidecar" {
					p.Spec.InitContainers = []v1.Container{scriptContainer("side", runs)}
					p.Spec.InitContainers[0].RestartPolicy = new(v1.ContainerRestartPolicyAlways)
					c.set(&p.Spec.InitContainers[0])
				} else {
					c.set(&p.Spec.Containers[0])
				}
				r.create(p)
				r.advance(3 * time.Second)
				list := r.get("p").Status.ContainerStatuses
				if kind == "sidecar" {
					list = r.get("p").Status.InitContainerStatuses
				}
				if st := list[0]; st.Ready != c.ready || st.State.Running == nil || st.Started == nil ||
					*st.Started != c.started {
					t.Errorf("%s, %s: got %+v, want started %t and ready %t", kind, name, st, c.started, c.ready)
				}
			})
		}
	}
}

// row: PRB-17
func TestContainerWithoutProbesIsReadyAsSoonAsItRuns(t *testing.T) {
	runTest(t, func(r *rig) {
		r.create(pod("p", scriptContainer("app", runs)))
		p := r.phase("p", v1.PodRunning)
		if st := p.Status.ContainerStatuses[0]; !st.Ready || st.Started == nil || !*st.Started ||
			readyIs(p) != v1.ConditionTrue {
			t.Errorf("got %+v, want Ready true, Started true and readyIs(p) ConditionTrue", p.Status)
		}
	})
}

// Before its delay is over a container is not ready, however good its answer will be.
//
// row: PRB-16
// row: PRB-23
func TestNotReadyBeforeTheDelay(t *testing.T) {
	runTest(t, func(r *rig) {
		a := r.serveProbes()
		late, plain := scriptContainer("late", runs), scriptContainer("plain", runs)
		late.ReadinessProbe, plain.ReadinessProbe = probeSpec("late", 5, 3), probeSpec("plain", 5, 3)
		late.ReadinessProbe.InitialDelaySeconds = 20
		r.create(pod("p", late, plain))
		ready := func() string {
			p := r.phase("p", v1.PodRunning)
			st := p.Status.ContainerStatuses
			return fmt.Sprintf("%t %t %s %d", st[0].Ready, st[1].Ready, readyIs(p), a.count()["late"])
		}
		for range 2 {
			r.advance(9 * time.Second)
			if got, want := ready(), "false true False 0"; got != want {
				t.Errorf("before the delay: got %s, want %s", got, want)
			}
		}
		r.advance(2 * time.Second)
		if got, want := ready(), "true true True 1"; got != want {
			t.Errorf("after it: got %s, want %s", got, want)
		}
	})
}

// Each probe of each container is asked once the container runs, and none of one that is not there.
//
// row: PWK-24
func TestEachContainersProbesAreAsked(t *testing.T) {
	runTest(t, func(r *rig) {
		a := r.serveProbes()
		with := func(name string) v1.Container {
			c := scriptContainer(name, runs)
			c.LivenessProbe, c.ReadinessProbe = probeSpec(name+"-live", 2, 3), probeSpec(name+"-ready", 2, 3)
			c.StartupProbe = probeSpec(name+"-start", 1, 3)
			return c
		}
		p := pod("p", with("a"), with("b"))
		side := with("side")
		side.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		p.Spec.InitContainers = []v1.Container{side}
		r.create(p)
		r.advance(9 * time.Second)
		r.phase("p", v1.PodRunning)
		asked := a.count()
		for _, c := range []string{"a", "b", "side"} {
			for _, kind := range []string{"-live", "-ready", "-start"} {
				if asked[c+kind] == 0 {
					t.Errorf("%s was not asked: %v", c+kind, asked)
				}
			}
		}
	})
}

// A hundred equal answers are written once.
//
// row: PRB-25
// row: PWK-25
func TestEqualAnswersAreWrittenOnce(t *testing.T) {
	runTest(t, func(r *rig) {
		a := r.serveProbes("ready")
		c := scriptContainer("app", runs)
		c.ReadinessProbe, c.LivenessProbe = probeSpec("ready", 1, 1), probeSpec("live", 1, 3)
		c.StartupProbe = probeSpec("start", 1, 3)
		r.create(pod("p", c))
		r.advance(5 * time.Second)
		for _, bad := range []string{"", "ready"} {
			before, asked := r.writes(), a.count()["ready"]
			a.fail(bad)
			r.advance(100 * time.Second)
			answers := a.count()["ready"] - asked
			if n := r.writes() - before; n != 1 || answers < 95 {
				t.Errorf("%d writes of the status for %d answers when %q fails, want one", n, answers, bad)
			}
		}
	})
}

// A httpGet probe goes to the Pod's own address and says who asks.
//
// row: PRB-04
// row: PRB-07
func TestWhatAnHTTPProbeSends(t *testing.T) {
	runTest(t, func(r *rig) {
		var mu sync.Mutex
		var dialed, agent, host string
		r.stop()
		r.with = func(o *kubelet.Options) {
			o.Dependencies.Dial = func(_ context.Context, _, address string) (net.Conn, error) {
				near, far := net.Pipe()
				go func() {
					defer far.Close()
					req, err := http.ReadRequest(bufio.NewReader(far))
					if err != nil {
						return
					}
					mu.Lock()
					dialed, agent, host = address, req.UserAgent(), req.Host
					mu.Unlock()
					_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
				}()
				return near, nil
			}
		}
		r.start()
		c := scriptContainer("app", runs)
		c.ReadinessProbe = &v1.Probe{PeriodSeconds: 1, TimeoutSeconds: 1, ProbeHandler: v1.ProbeHandler{
			HTTPGet: &v1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080), Scheme: v1.URISchemeHTTP}}}
		r.create(pod("p", c))
		r.advance(2 * time.Second)
		p := r.phase("p", v1.PodRunning)
		mu.Lock()
		defer mu.Unlock()
		if want := p.Status.PodIP + ":8080"; dialed != want || host != want || readyIs(p) != v1.ConditionTrue {
			t.Errorf("dialed %q, Host %q, Ready %s, want %s and True", dialed, host, readyIs(p), want)
		}
		if agent != "kube-probe/1.37" {
			t.Errorf("User-Agent %q, want kube-probe/1.37", agent)
		}
	})
}

// row: PRB-15
// row: PRB-16
// row: PRB-31
func TestFailedReadinessOnlyEndsTheTraffic(t *testing.T) {
	runTest(t, func(r *rig) {
		a := r.serveProbes("ready")
		c := scriptContainer("app", runs)
		c.ReadinessProbe = probeSpec("ready", 5, 3)
		r.create(pod("p", c))
		if p := r.phase("p", v1.PodRunning); readyIs(p) != v1.ConditionFalse || p.Status.ContainerStatuses[0].Ready {
			t.Fatalf("ready before the first success: %+v", p.Status)
		}
		a.fail()
		r.advance(5 * time.Second)
		if p := r.phase("p", v1.PodRunning); readyIs(p) != v1.ConditionTrue {
			t.Fatalf("got %+v, want readyIs(p) ConditionTrue", p.Status)
		}
		a.fail("ready")
		r.advance(11 * time.Second)
		if p := r.phase("p", v1.PodRunning); readyIs(p) != v1.ConditionTrue {
			t.Error("out of traffic after two failures of three")
		}
		r.advance(5 * time.Second)
		if p := r.phase("p", v1.PodRunning); readyIs(p) != v1.ConditionFalse {
			t.Error("in traffic though the third question in a row has just failed")
		}
		r.advance(time.Minute)
		p := r.phase("p", v1.PodRunning)
		if st := p.Status.ContainerStatuses[0]; readyIs(p) != v1.ConditionFalse || st.Ready || st.RestartCount != 0 ||
			st.State.Running == nil {
			t.Errorf("got %+v, want readyIs(p) ConditionFalse, Ready false, RestartCount 0 and set Running", p.Status)
		}
	})
}

// A container that its liveness or startup probe gives up is restarted, or not, as the policy says;
// the Pod stays the same Pod on the same node.
//
// row: PRB-14
// row: PRB-19
func TestProbesThatGiveUp(t *testing.T) {
	for _, tc := range []struct {
		name, kind string
		policy     v1.RestartPolicy
		restarts   int32
		phase      v1.PodPhase
	}{
		{"liveness, always", "liveness", v1.RestartPolicyAlways, 1, v1.PodRunning},
		{"liveness, on failure", "liveness", v1.RestartPolicyOnFailure, 1, v1.PodRunning},
		{"liveness, never", "liveness", v1.RestartPolicyNever, 0, v1.PodFailed},
		{"startup, always", "startup", v1.RestartPolicyAlways, 1, v1.PodRunning},
		{"startup, on failure", "startup", v1.RestartPolicyOnFailure, 1, v1.PodRunning},
		{"startup, never", "startup", v1.RestartPolicyNever, 0, v1.PodFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			runTest(t, func(r *rig) {
				r.fake.On(crifake.Match{}, crifake.Script{Sh: "trap 'exit 143' TERM; while true; do sleep 1; done",
					Exec: func(*crifake.Process, []string) (int, bool) { return 1, true }})
				c := scriptContainer("app", runs)
				if tc.kind == "liveness" {
					c.LivenessProbe = probeSpec("sick", 5, 3)
				} else {
					c.StartupProbe = probeSpec("sick", 5, 3)
				}
				p := pod("p", c)
				p.Spec.RestartPolicy = tc.policy
				r.create(p)
				r.advance(14 * time.Second)
				if st := r.phase("p", v1.PodRunning).Status.ContainerStatuses[0]; st.RestartCount != 0 ||
					st.State.Running == nil {
					t.Fatalf("given up before 3 × 5 s: %+v", st)
				}
				r.advance(3 * time.Second)
				got := r.phase("p", tc.phase)
				if n := got.Status.ContainerStatuses[0].RestartCount; n != tc.restarts || got.UID != p.UID ||
					got.Spec.NodeName != "n1" {
					t.Errorf("%d restarts, want %d: %+v", n, tc.restarts, got.Status)
				}
				want := "Container app failed " + tc.kind + " probe, will be restarted"
				// nothing of the Pod is kept, so it is stopped as a whole; the event is upstream's
				// then too
				if tc.restarts == 0 {
					want = "Stopping container app"
				}
				if r.events.count("Normal Killing: "+want) == 0 {
					t.Errorf("no event %q in\n%s", want, r.events.text())
				}
			})
		})
	}
}

// Failures with a success between them are not in a row, however many they are.
//
// row: PRB-14
func TestASuccessBetweenFailuresBeginsTheCountAnew(t *testing.T) {
	runTest(t, func(r *rig) {
		var asked atomic.Int64
		r.fake.On(crifake.Match{}, crifake.Script{Sh: runs, Exec: func(*crifake.Process, []string) (int, bool) {
			if asked.Add(1)%3 == 0 {
				return 0, true
			}
			return 1, true
		}})
		c := scriptContainer("app", runs)
		c.LivenessProbe = probeSpec("sick", 5, 3)
		r.create(pod("p", c))
		r.advance(2 * time.Minute)
		if st := r.phase("p", v1.PodRunning).Status.ContainerStatuses[0]; st.RestartCount != 0 || asked.Load() < 12 {
			t.Errorf("%d restarts after %d questions, each third of which succeeded, want none", st.RestartCount,
				asked.Load())
		}
	})
}

// A sidecar that its liveness probe gives up is restarted, and no other container.
//
// row: ISE-23
func TestASidecarThatGivesUpIsRestartedAlone(t *testing.T) {
	runTest(t, func(r *rig) {
		a := r.serveProbes()
		side, app := scriptContainer("side", runs), scriptContainer("app", runs)
		side.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		side.LivenessProbe, app.LivenessProbe = probeSpec("side-live", 5, 3), probeSpec("app-live", 5, 3)
		side.ReadinessProbe = probeSpec("side-ready", 5, 1)
		p := pod("p", app)
		p.Spec.InitContainers = []v1.Container{side}
		r.create(p)
		ready := func() v1.ConditionStatus {
			return condition(r.phase("p", v1.PodRunning), v1.PodReady).Status
		}
		r.advance(11 * time.Second)
		if got := ready(); got != v1.ConditionTrue {
			t.Errorf("all probes succeed: Ready %s, want True", got)
		}
		a.fail("side-ready")
		r.advance(6 * time.Second)
		if got := ready(); got != v1.ConditionFalse {
			t.Errorf("the sidecar's readiness probe fails: Ready %s, want False", got)
		}
		a.fail()
		r.advance(6 * time.Second)
		a.fail("side-live")
		r.advance(15 * time.Second)
		a.fail()
		r.advance(10 * time.Second)
		s := r.phase("p", v1.PodRunning).Status
		if got := s.InitContainerStatuses[0]; got.RestartCount != 1 || got.State.Running == nil {
			t.Errorf("the sidecar: got %+v, want it running after one restart", got)
		}
		if got := s.ContainerStatuses[0]; got.RestartCount != 0 || got.State.Running == nil {
			t.Errorf("the app: got %+v, want it as it was", got)
		}
	})
}

// A container that ignores TERM is killed after the grace period of the probe that gave it up, and
// that it is killed is reported; when its Pod is deleted meanwhile, that is reported as well.
//
// row: PRB-19
func TestTheProbesOwnGracePeriod(t *testing.T) {
	for name, deleted := range map[string]bool{"alone": false, "and then deleted": true} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(r *rig) {
				r.fake.On(crifake.Match{}, crifake.Script{Sh: "trap '' TERM; while true; do sleep 1; done",
					Exec: func(*crifake.Process, []string) (int, bool) { return 1, true }})
				c := scriptContainer("app", runs)
				c.LivenessProbe = probeSpec("sick", 5, 1)
				c.LivenessProbe.TerminationGracePeriodSeconds = new(int64(8))
				r.create(pod("p", c))
				r.advance(7 * time.Second)
				if r.events.count("Normal Killing: Container app failed liveness probe, will be restarted") != 1 {
					t.Errorf(`got %v, want 1 times "Normal Killing: Container app failed liveness probe, w…"`,
						r.events.text())
				}
				if deleted {
					r.delete("p", 3)
					r.advance(6 * time.Second)
					r.expectPodGone("p")
					if r.events.count("Normal Killing: Stopping container app") != 1 {
						t.Errorf(`got %v, want 1 times "Normal Killing: Stopping container app"`, r.events.text())
					}
					return
				}
				r.advance(5 * time.Second)
				if n := r.get("p").Status.ContainerStatuses[0].RestartCount; n != 0 {
					t.Errorf("killed before its 8 s were over: %d restarts", n)
				}
				r.advance(3 * time.Second)
				if st := r.get("p").Status.ContainerStatuses[0]; st.RestartCount != 1 ||
					st.LastTerminationState.Terminated == nil || st.LastTerminationState.Terminated.ExitCode != 137 {
					t.Errorf("got %+v, want RestartCount 1 and ExitCode 137", st)
				}
			})
		})
	}
}

// What probes had found before a restart of the kubelet holds until they find something else; the
// counters begin anew, so nothing flips without its threshold.
//
// row: KSL-08
func TestVerdictsSurviveARestartOfTheKubelet(t *testing.T) {
	for _, tc := range []struct {
		name         string
		bad, badThen []string
		before       bool
		soon, late   bool // ready 8 s and a minute after the restart
		restarts     int32
	}{
		{name: "ready stays ready", before: true, soon: true, late: true},
		{name: "ready, and fails since", badThen: []string{"ready"}, before: true, soon: true, late: false},
		{name: "unready stays unready", bad: []string{"ready"}, badThen: []string{"ready"}},
		{name: "unready, and well since", bad: []string{"ready"}, soon: true, late: true},
		{name: "started is not asked again", badThen: []string{"start"}, before: true, soon: true, late: true},
		{name: "not started yet", bad: []string{"start"}, badThen: []string{"start"}},
		{name: "liveness needs its threshold again", badThen: []string{"live"}, before: true, soon: true, late: true,
			restarts: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			runTest(t, func(r *rig) {
				a := r.serveProbes(tc.bad...)
				c := scriptContainer("app", runs)
				c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = probeSpec("start", 2, 300),
					probeSpec("ready", 4, 3), probeSpec("live", 10, 3)
				r.create(pod("p", c))
				r.advance(20 * time.Second)
				before := r.phase("p", v1.PodRunning).Status.ContainerStatuses[0]
				if before.Ready != tc.before {
					t.Fatalf("got %+v, want Ready %v", before, tc.before)
				}
				r.stop()
				a.fail(tc.badThen...)
				writes := r.writes()
				r.start()
				if st := r.phase("p", v1.PodRunning).Status.ContainerStatuses[0]; st.Ready != tc.before ||
					r.writes() != writes {
					t.Errorf("the restart alone made %+v of %+v in %d writes", st, before, r.writes()-writes)
				}
				r.advance(8 * time.Second)
				if st := r.phase("p", v1.PodRunning).Status.ContainerStatuses[0]; st.Ready != tc.soon ||
					st.ContainerID != before.ContainerID || st.RestartCount != 0 {
					t.Errorf("after 8 s: %+v", st)
				}
				r.advance(42 * time.Second)
				st := r.phase("p", v1.PodRunning).Status.ContainerStatuses[0]
				if st.RestartCount != tc.restarts || tc.restarts == 0 && st.Ready != tc.late {
					t.Errorf("after 50 s: %+v", st)
				}
				if tc.name == "started is not asked again" && a.count()["start"] > 1 {
					t.Errorf("asked %v", a.count())
				}
			})
		})
	}
}
