package prober_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/probe"
	"github.com/gantry-project/gantry/internal/kubelet/prober"
	"github.com/gantry-project/gantry/test/wrappers"
)

// testEnv answers probes by a script and notes everything with the second it happened in.
type testEnv struct {
	t         *testing.T
	startedAt time.Time
	mu        sync.Mutex
	answers   map[string]string // by the exec command's first word: one letter per question, the last one for good
	slow      time.Duration
	probes    int
	lines     []string
	changed   int
}

func (w *testEnv) Probe(ctx context.Context, t probe.Target) probe.Outcome {
	name := t.Probe.Exec.Command[0]
	w.mu.Lock()
	script := w.answers[name]
	if len(script) > 1 {
		w.answers[name] = script[1:]
	}
	w.probes++
	w.mu.Unlock()
	w.note("ask %s", name)
	if ctx.Err() != nil {
		return probe.Outcome{Err: ctx.Err()}
	}
	select {
	case <-time.After(w.slow):
	case <-ctx.Done():
		return probe.Outcome{Err: ctx.Err()}
	}
	switch script[0] {
	case 's':
		return probe.Outcome{Result: probe.Success}
	case 'w':
		return probe.Outcome{Result: probe.Warning, Output: "moved"}
	case 'e':
		return probe.Outcome{Err: errors.New("no exec")}
	}
	return probe.Outcome{Result: probe.Failure, Output: "sick"}
}

func (w *testEnv) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf("%gs ", time.Since(w.startedAt).Seconds())+fmt.Sprintf(format, args...))
}

func (w *testEnv) Event(o runtime.Object, kind, why, message string) {
	if kind != v1.EventTypeWarning {
		w.note("an event of type %s", kind)
	}
	w.note("%s %s %s", o.(*v1.ObjectReference).FieldPath, why, message)
}

func (w *testEnv) Put(_ journal.Ref, f journal.Fact) { w.note("fact %s", f.Line()) }

func (w *testEnv) expect(want string) {
	w.t.Helper()
	w.mu.Lock()
	got := strings.Join(w.lines, "\n")
	w.lines = nil
	w.mu.Unlock()
	want = normalize(strings.ReplaceAll(strings.TrimSpace(want), "\t", ""))
	got = normalize(got)
	if got != want {
		w.t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// normalize sorts what happened at one instant: two timers of one instant fire in any order.
func normalize(expected string) string {
	lines := strings.Split(expected, "\n")
	slices.SortStableFunc(lines, func(a, b string) int {
		at, _, _ := strings.Cut(a, " ")
		bt, _, _ := strings.Cut(b, " ")
		if at != bt {
			return cmp.Compare(seconds(at), seconds(bt))
		}
		return strings.Compare(a, b)
	})
	return strings.Join(lines, "\n")
}

func seconds(s string) float64 {
	f, _ := strconv.ParseFloat(strings.TrimSuffix(s, "s"), 64)
	return f
}

func start(t *testing.T, answers map[string]string) (*testEnv, *prober.Manager) {
	return startWith(t, answers, prober.Deps{})
}

func startWith(t *testing.T, answers map[string]string, d prober.Deps) (*testEnv, *prober.Manager) {
	w := &testEnv{t: t, startedAt: time.Now(), answers: answers}
	d.Probers, d.Recorder, d.Journal = prober.Probers{Exec: w}, w, w
	d.Changed = func(types.UID) { w.mu.Lock(); w.changed++; w.mu.Unlock() }
	d.Jitter = func(d time.Duration) time.Duration { return d / 2 }
	return w, prober.New(d)
}

func exec(word string, period, failures int32) *v1.Probe {
	return &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{word}}},
		PeriodSeconds: period, FailureThreshold: failures}
}

func pod(c v1.Container) *v1.Pod {
	c.Name = "c"
	return wrappers.MakePod().Namespace("ns").Name("p").UID("u").Containers(c).Obj()
}

func running(id string) []prober.Running {
	return []prober.Running{{Name: "c", ID: id, StartedAt: time.Now()}}
}

func healthOf(a *prober.Manager, k probe.Kind) probe.Health {
	v, ok := a.Health(probe.Key{UID: "u", Container: "c", Kind: k})
	if !ok {
		return -1
	}
	return v
}

// row: PRB-32
func TestLivenessGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a := start(t, map[string]string{"live": "sf"})
		p := pod(v1.Container{LivenessProbe: exec("live", 10, 2)})
		a.SyncPod(p, "10.0.0.1", running("1"), prober.NotEnding)
		time.Sleep(60 * time.Second)
		w.expect(`
			10s ask live
			20s ask live
			20s spec.containers{c} Unhealthy Liveness probe failed: sick
			20s fact liveness probe of c: failure 1/2: sick
			30s ask live
			30s spec.containers{c} Unhealthy Liveness probe failed: sick
			30s fact liveness probe of c: failure 2/2: sick`)
		if healthOf(a, probe.Liveness) != probe.Unhealthy || w.changed != 1 {
			t.Errorf("result %v after %d changes", healthOf(a, probe.Liveness), w.changed)
		}
		// The container's successor begins with a clean count.
		a.SyncPod(p, "10.0.0.1", running("2"), prober.NotEnding)
		if healthOf(a, probe.Liveness) != probe.Healthy {
			t.Error("a new container begins as given up")
		}
		time.Sleep(11 * time.Second)
		w.expect(`
			70s ask live
			70s spec.containers{c} Unhealthy Liveness probe failed: sick
			70s fact liveness probe of c: failure 1/2: sick`)
		a.Forget("u")
	})
}

// 18 × 5 s is 90 s, 30 × 10 s is 300 s, 3 × 10 s is 30 s.
//
// row: PRB-20
func TestTimeUntilProbesGiveUp(t *testing.T) {
	for _, tc := range []struct {
		period, failures int32
		startup          bool
		want             time.Duration
	}{{5, 18, true, 90 * time.Second}, {10, 30, true, 300 * time.Second}, {10, 3, false, 30 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			w, a := start(t, map[string]string{"x": "f"})
			kind, c := probe.Liveness, v1.Container{LivenessProbe: exec("x", tc.period, tc.failures)}
			if tc.startup {
				kind, c = probe.Startup, v1.Container{StartupProbe: exec("x", tc.period, tc.failures)}
			}
			a.SyncPod(pod(c), "", running("1"), prober.NotEnding)
			time.Sleep(tc.want - time.Millisecond)
			if healthOf(a, kind) == probe.Unhealthy {
				t.Errorf("%d × %ds: given up before %v", tc.failures, tc.period, tc.want)
			}
			time.Sleep(2 * time.Millisecond)
			if healthOf(a, kind) != probe.Unhealthy {
				t.Errorf("%d × %ds: not given up at %v, %d asked", tc.failures, tc.period, tc.want, w.probes)
			}
			a.Forget("u")
		})
	}
}

// row: PRB-25
// row: PRB-32
func TestReadinessFlips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a := start(t, map[string]string{"ready": "fsssfffs"})
		a.SyncPod(pod(v1.Container{ReadinessProbe: exec("ready", 1, 3)}), "", running("1"), prober.NotEnding)
		if healthOf(a, probe.Readiness) != probe.Unhealthy {
			t.Error("ready before the first answer")
		}
		time.Sleep(7500 * time.Millisecond)
		w.expect(`
			0s ask ready
			0s spec.containers{c} Unhealthy Readiness probe failed: sick
			0s fact readiness probe of c: failure 1/3: sick
			1s ask ready
			1s fact readiness probe of c: success 1/1
			2s ask ready
			3s ask ready
			4s ask ready
			4s spec.containers{c} Unhealthy Readiness probe failed: sick
			4s fact readiness probe of c: failure 1/3: sick
			5s ask ready
			5s spec.containers{c} Unhealthy Readiness probe failed: sick
			5s fact readiness probe of c: failure 2/3: sick
			6s ask ready
			6s spec.containers{c} Unhealthy Readiness probe failed: sick
			6s fact readiness probe of c: failure 3/3: sick
			7s ask ready
			7s fact readiness probe of c: success 1/1`)
		if w.changed != 3 {
			t.Errorf("%d changes reported, want 3", w.changed)
		}
		time.Sleep(100 * time.Second)
		if w.changed != 3 {
			t.Errorf("equal answers are reported as changes: got %d, want 3", w.changed)
		}
		a.Forget("u")
	})
}

// One container's startup probe holds back its own probes only, and again when the container has
// been started again.
//
// row: PRB-18
func TestStartupIsOfOneContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a := start(t, map[string]string{"start": "s", "live": "s", "ready": "s", "start-d": "f", "ready-d": "s",
			"live-d": "s", "ready-e": "s"})
		p := pod(v1.Container{StartupProbe: exec("start", 2, 5), LivenessProbe: exec("live", 4, 3),
			ReadinessProbe: exec("ready", 4, 3)})
		p.Spec.Containers = append(p.Spec.Containers,
			v1.Container{Name: "d", StartupProbe: exec("start-d", 3, 2), LivenessProbe: exec("live-d", 1, 3),
				ReadinessProbe: exec("ready-d", 1, 3)},
			v1.Container{Name: "e", ReadinessProbe: exec("ready-e", 20, 3)})
		d, e := prober.Running{Name: "d", ID: "2", StartedAt: time.Now()}, prober.Running{Name: "e", ID: "3",
			StartedAt: time.Now()}
		asked := func() string {
			w.mu.Lock()
			defer w.mu.Unlock()
			var out []string
			for _, l := range strings.Split(normalize(strings.Join(w.lines, "\n")), "\n") {
				if at, name, ok := strings.Cut(l, " ask "); ok {
					out = append(out, at+" "+name)
				}
			}
			w.lines = nil
			return strings.Join(slices.Compact(out), ", ")
		}
		a.SyncPod(p, "", append(running("1"), d, e), prober.NotEnding)
		time.Sleep(11 * time.Second)
		if got, want := asked(), "0s ready-e, 2s ready, 2s start, 3s start-d, 6s live, 6s ready, 6s start-d, "+
			"10s live, 10s ready"; got != want {
			t.Errorf("asked\n%s, want\n%s", got, want)
		}
		a.SyncPod(p, "", append(running("4"), d, e), prober.NotEnding) // its successor
		time.Sleep(3 * time.Second)
		if got, want := asked(), "13s ready, 13s start"; got != want {
			t.Errorf("after its restart asked\n%s, want\n%s", got, want)
		}
		a.Forget("u")
	})
}

// row: PRB-18
// row: PRB-32
func TestStartupHoldsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a := start(t, map[string]string{"start": "ffs", "live": "s", "ready": "s"})
		a.SyncPod(pod(v1.Container{StartupProbe: exec("start", 2, 5), LivenessProbe: exec("live", 10, 3),
			ReadinessProbe: exec("ready", 10, 3)}), "", running("1"), prober.NotEnding)
		time.Sleep(17 * time.Second)
		w.expect(`
			2s ask start
			2s spec.containers{c} Unhealthy Startup probe failed: sick
			2s fact startup probe of c: failure 1/5: sick
			4s ask start
			4s spec.containers{c} Unhealthy Startup probe failed: sick
			4s fact startup probe of c: failure 2/5: sick
			6s ask start
			6s fact startup probe of c: success 1/1
			6s ask ready
			6s fact readiness probe of c: success 1/1
			16s ask live
			16s ask ready`)
		a.Forget("u")
	})
}

// row: PRB-13
func TestErrorsCountForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a := start(t, map[string]string{"live": "e"})
		a.SyncPod(pod(v1.Container{LivenessProbe: exec("live", 10, 1)}), "", running("1"), prober.NotEnding)
		time.Sleep(25 * time.Second)
		w.expect(`
			10s ask live
			10s ask live
			10s ask live
			10s spec.containers{c} Unhealthy Liveness probe errored and resulted in unknown state: no exec
			10s fact liveness probe of c: unknown 0/1: no exec
			20s ask live
			20s ask live
			20s ask live
			20s spec.containers{c} Unhealthy Liveness probe errored and resulted in unknown state: no exec`)
		if healthOf(a, probe.Liveness) != probe.Healthy {
			t.Error("an error ended the container")
		}
		a.Forget("u")
	})
}

// When the kubelet ends, no container is probed again, and a late answer is dropped.
func TestCloseEndsProbing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a := start(t, map[string]string{"live": "f", "ready": "f"})
		w.slow = 5 * time.Second
		p := pod(v1.Container{LivenessProbe: exec("live", 10, 1), ReadinessProbe: exec("ready", 10, 1)})
		a.SyncPod(p, "10.0.0.1", running("1"), prober.NotEnding)
		time.Sleep(2 * time.Second)
		a.Close()
		a.SyncPod(p, "10.0.0.1", running("2"), prober.NotEnding)
		time.Sleep(time.Minute)
		w.expect(`0s ask ready`)
		if len(a.WorkerCount()) != 0 || w.changed != 0 {
			t.Errorf("%v left, %d changes", a.WorkerCount(), w.changed)
		}
	})
}

// row: PRB-32
func TestProbeWarningEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a := start(t, map[string]string{"ready": "w"})
		a.SyncPod(pod(v1.Container{ReadinessProbe: exec("ready", 10, 1)}), "", running("1"), prober.NotEnding)
		time.Sleep(time.Second)
		w.expect(`
			0s ask ready
			0s spec.containers{c} ProbeWarning Readiness probe warning: moved
			0s fact readiness probe of c: success 1/1: moved`)
		a.Forget("u")
	})
}

// Each probe keeps its own period, and a delay holds back only the probe that has it.
//
// row: PRB-01
// row: PRB-23
func TestEachProbeHasItsOwnTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a := start(t, map[string]string{"start": "s", "live": "s", "ready": "s", "late": "s"})
		p := pod(v1.Container{StartupProbe: exec("start", 1, 3), LivenessProbe: exec("live", 5, 3),
			ReadinessProbe: exec("ready", 3, 3)})
		late := exec("late", 4, 3)
		late.InitialDelaySeconds = 7
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "d", ReadinessProbe: late})
		a.SyncPod(p, "", append(running("1"), prober.Running{Name: "d", ID: "2", StartedAt: time.Now()}),
			prober.NotEnding)
		time.Sleep(12 * time.Second)
		w.mu.Lock()
		var asked []string
		for _, l := range w.lines {
			if strings.Contains(l, " ask ") {
				asked = append(asked, l)
			}
		}
		w.lines = asked
		w.mu.Unlock()
		w.expect(`
			1s ask start
			1s ask ready
			4s ask ready
			6s ask live
			7s ask ready
			7s ask late
			10s ask ready
			11s ask live
			11s ask late`)
		a.Forget("u")
	})
}

// Each handler is asked by its own prober, which gets the address to ask.
//
// row: PRB-02
// row: PRB-04
// row: PRB-09
func TestEachHandlerHasItsProber(t *testing.T) {
	for name, h := range map[string]v1.ProbeHandler{
		"exec":      {Exec: &v1.ExecAction{Command: []string{"true"}}},
		"httpGet":   {HTTPGet: &v1.HTTPGetAction{Path: "/live", Port: intstr.FromInt32(80)}},
		"tcpSocket": {TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(80)}},
		"grpc":      {GRPC: &v1.GRPCAction{Port: 80}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			asked := map[string]probe.Target{}
			as := func(name string) probe.Prober {
				return proberFunc(func(t probe.Target) probe.Outcome {
					mu.Lock()
					defer mu.Unlock()
					asked[name] = t
					return probe.Outcome{Result: probe.Success}
				})
			}
			a := prober.New(prober.Deps{Probers: prober.Probers{Exec: as("exec"), HTTP: as("httpGet"),
				TCP: as("tcpSocket"), GRPC: as("grpc")}, Journal: journal.Discard{}, Changed: func(types.UID) {}})
			a.SyncPod(pod(v1.Container{ReadinessProbe: &v1.Probe{ProbeHandler: h, TimeoutSeconds: 7}}), "10.0.0.1",
				running("id-1"), prober.NotEnding)
			synctest.Wait()
			a.Forget("u")
			mu.Lock()
			defer mu.Unlock()
			got, ok := asked[name]
			if !ok || len(asked) != 1 {
				t.Fatalf("a probe with %s asked by %v", name, slices.Collect(maps.Keys(asked)))
			}
			if got.PodIP != "10.0.0.1" || got.ContainerID != "id-1" || got.Container.Name != "c" ||
				got.Timeout != 7*time.Second || got.Probe.ProbeHandler != h {
				t.Errorf("%s asks %+v, want 10.0.0.1, id-1, container c, 7s and its own handler", name, got)
			}
		})
	}
}

type proberFunc func(probe.Target) probe.Outcome

func (f proberFunc) Probe(_ context.Context, t probe.Target) probe.Outcome { return f(t) }

// A thousand probes with a period of a second, each of which takes nearly that long to be answered,
// are all asked in each period and none is asked late.
//
// row: PRB-26
func TestAThousandProbesAreAskedOnTime(t *testing.T) {
	const count = 1000
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked, worst := map[types.UID]int{}, time.Duration(0)
		slow := proberFunc(func(to probe.Target) probe.Outcome {
			mu.Lock()
			asked[to.Pod.UID]++
			mu.Unlock()
			time.Sleep(900 * time.Millisecond)
			return probe.Outcome{Result: probe.Success}
		})
		a := prober.New(prober.Deps{Probers: prober.Probers{HTTP: slow}, Journal: journal.Discard{},
			Changed: func(types.UID) {}, Probed: func(_ *v1.Pod, m prober.Measurement) {
				mu.Lock()
				defer mu.Unlock()
				worst = max(worst, m.Late)
			}})
		for i := range count {
			p := pod(v1.Container{ReadinessProbe: &v1.Probe{PeriodSeconds: 1,
				ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(80)}}}})
			p.UID = types.UID(strconv.Itoa(i))
			a.SyncPod(p, "10.0.0.1", running("1"), prober.NotEnding)
		}
		time.Sleep(3050 * time.Millisecond) // asked at 0, 1, 2 and 3 s
		synctest.Wait()
		mu.Lock()
		few := 0
		for _, n := range asked {
			if n != 4 {
				few++
			}
		}
		if len(asked) != count || few > 0 || worst > 0 {
			t.Errorf("%d of %d probes asked, %d of them not four times in four periods, the latest late by %s",
				len(asked), count, few, worst)
		}
		mu.Unlock()
		a.Close()
		time.Sleep(time.Minute) // the last answers
	})
}

// row: PRB-01
// row: PRB-24
// row: PWK-24
// row: PWK-27
func TestProbeWorkersFollowContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a := start(t, map[string]string{"x": "s"})
		c := v1.Container{StartupProbe: exec("x", 10, 1), LivenessProbe: exec("x", 10, 1),
			ReadinessProbe: exec("x", 10, 1)}
		p := pod(c)
		p.Spec.Containers = append(p.Spec.Containers, c)
		p.Spec.Containers[1].Name = "d"
		both := append(running("1"), prober.Running{Name: "d", ID: "2", StartedAt: time.Now()})
		a.SyncPod(p, "", both, prober.NotEnding)
		if got := fmt.Sprint(a.WorkerCount()); got != "map[liveness:2 readiness:2 startup:2]" {
			t.Errorf("workers %s", got)
		}
		a.SyncPod(p, "", both[:1], prober.NotEnding)
		if got := fmt.Sprint(a.WorkerCount()); got != "map[liveness:1 readiness:1 startup:1]" {
			t.Errorf("a container that does not run keeps its probes: %s", got)
		}
		a.SyncPod(p, "", both[:1], prober.Ending)
		if got := fmt.Sprint(a.WorkerCount()); got != "map[readiness:1]" {
			t.Errorf("a stopping Pod keeps its readiness probes only: %s", got)
		}
		a.Forget("u")
		time.Sleep(time.Minute)
		if len(a.WorkerCount()) != 0 || w.probes != 0 {
			t.Errorf("%v left, %d asked", a.WorkerCount(), w.probes)
		}
		if got, ok := a.Health(probe.Key{UID: "u", Container: "c", Kind: probe.Readiness}); ok {
			t.Errorf("got the result %v of a Pod that is gone, want none", got)
		}
	})
}

// Newer versions of a Pod have the workers that it had: each probe asks once in its period.
//
// row: PRB-24
func TestANewVersionOfAPodHasTheSameWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a := start(t, map[string]string{"x": "s"})
		p := pod(v1.Container{LivenessProbe: exec("x", 10, 1), ReadinessProbe: exec("x", 10, 1)})
		for range 4 {
			a.SyncPod(p, "", running("1"), prober.NotEnding)
			p = p.DeepCopy()
		}
		time.Sleep(45 * time.Second) // readiness at once and liveness after ten seconds, then each every ten
		if w.probes != 9 || fmt.Sprint(a.WorkerCount()) != "map[liveness:1 readiness:1]" {
			t.Errorf("%d questions of %v in 45 s, want 9 of two", w.probes, a.WorkerCount())
		}
		a.Forget("u")
		time.Sleep(time.Minute)
		if w.probes != 9 {
			t.Errorf("%d questions in a minute after the Pod was forgotten, want none", w.probes-9)
		}
	})
}

// The probes that end with their Pod leave their results: a container that had started stays
// started, one that had not does not start by it. Sidecars are probed on.
//
// row: PRB-24
func TestResultsOfAnEndingPodStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := start(t, map[string]string{"up": "s", "down": "f"})
		p := pod(v1.Container{StartupProbe: exec("up", 1, 3), RestartPolicy: new(v1.ContainerRestartPolicyAlways)})
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "d", StartupProbe: exec("down", 10, 9)})
		p.Spec.InitContainers = []v1.Container{{Name: "s", RestartPolicy: new(v1.ContainerRestartPolicyAlways),
			StartupProbe: exec("up", 1, 3), LivenessProbe: exec("up", 1, 3)}}
		all := append(running("1"), prober.Running{Name: "d", ID: "2", StartedAt: time.Now()},
			prober.Running{Name: "s", ID: "3", StartedAt: time.Now()})
		a.SyncPod(p, "", all, prober.NotEnding)
		time.Sleep(1500 * time.Millisecond)
		a.SyncPod(p, "", all, prober.Ending)
		if got, ok := a.Health(probe.Key{UID: "u", Container: "c", Kind: probe.Startup}); !ok || got != probe.Healthy {
			t.Errorf("startup of the container that had started: got %v (%t), want %v", got, ok, probe.Healthy)
		}
		if got, ok := a.Health(probe.Key{UID: "u", Container: "d", Kind: probe.Startup}); !ok || got == probe.Healthy {
			t.Errorf("startup of the container that had not started: got %v (%t), want %v", got, ok, probe.Pending)
		}
		if got, want := fmt.Sprint(a.WorkerCount()), "map[liveness:1 startup:1]"; got != want {
			t.Errorf("probes that ask: got %s, want %s: those of the sidecar", got, want)
		}
		a.Forget("u")
	})
}

// In v1.36 no command is started in a Pod that somebody stops: readiness stays what it was, and one
// that was not ready is notified at once. A Pod that ends by itself is asked on.
func TestCommandsOfAnEndingPodAreCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a := startWith(t, map[string]string{"ready": "s", "unready": "f"}, prober.Deps{V136: true})
		p := pod(v1.Container{ReadinessProbe: exec("ready", 10, 1)})
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "d", ReadinessProbe: exec("unready", 10, 1)})
		both := append(running("1"), prober.Running{Name: "d", ID: "2", StartedAt: time.Now()})
		a.SyncPod(p, "", both, prober.NotEnding)
		time.Sleep(4 * time.Second)
		a.SyncPod(p, "", both, prober.Ending)
		time.Sleep(time.Second)
		w.lines = nil
		a.SyncPod(p, "", both, prober.Stopped)
		time.Sleep(6 * time.Second)
		w.expect(`
			5s ask unready
			5s spec.containers{d} Unhealthy Readiness probe errored and resulted in unknown state: context canceled
			5s fact readiness probe of d: unknown 1/1: context canceled
			10s ask ready
			10s spec.containers{c} Unhealthy Readiness probe errored and resulted in unknown state: context canceled
			10s fact readiness probe of c: unknown 1/1: context canceled`)
		if healthOf(a, probe.Readiness) != probe.Healthy {
			t.Error("readiness of an ending container changed by a command that never ran")
		}
		a.Forget("u")
	})
}

// A container is asked on while its Pod is stopped, and readiness follows.
//
// row: PRB-24
func TestReadinessIsTrueToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a := start(t, map[string]string{"ready": "ssf"})
		p := pod(v1.Container{ReadinessProbe: exec("ready", 10, 1)})
		a.SyncPod(p, "", running("1"), prober.NotEnding)
		time.Sleep(5 * time.Second)
		w.lines = nil
		a.SyncPod(p, "", running("1"), prober.Stopped)
		time.Sleep(17 * time.Second)
		w.expect(`
			10s ask ready
			20s ask ready
			20s spec.containers{c} Unhealthy Readiness probe failed: sick
			20s fact readiness probe of c: failure 1/1: sick`)
		if got := healthOf(a, probe.Readiness); got != probe.Unhealthy {
			t.Errorf("readiness of the stopping container: got %v, want %v", got, probe.Unhealthy)
		}
		a.Forget("u")
	})
}

func TestAnswerOfAGoneContainerIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a := start(t, map[string]string{"live": "f"})
		w.slow = time.Hour
		p := pod(v1.Container{LivenessProbe: exec("live", 10, 1)})
		a.SyncPod(p, "", running("1"), prober.NotEnding)
		time.Sleep(11 * time.Second)
		a.SyncPod(p, "", running("2"), prober.NotEnding) // ends the question under way
		synctest.Wait()
		w.expect(`10s ask live`)
		if healthOf(a, probe.Liveness) != probe.Healthy {
			t.Error("the old container's end is held against the new one")
		}
		a.Forget("u")
		time.Sleep(time.Hour) // the old container's answer comes
	})
}

// A kubelet that comes back knows what was said before it left, so that nothing flaps; questions
// are spread.
//
// row: KSL-08
func TestProbeResultsSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a := start(t, map[string]string{"start": "f", "ready": "s", "live": "s"})
		p := pod(v1.Container{StartupProbe: exec("start", 10, 1), ReadinessProbe: exec("ready", 10, 3),
			LivenessProbe: exec("live", 10, 3)})
		a.SyncPod(p, "", []prober.Running{{Name: "c", ID: "1", StartedAt: time.Now().Add(-time.Hour), Adopted: true,
			Ready: true, Started: true}}, prober.NotEnding)
		for _, k := range []probe.Kind{probe.Startup, probe.Readiness, probe.Liveness} {
			if healthOf(a, k) != probe.Healthy {
				t.Errorf("%s begins: got %v, want %v", k, healthOf(a, k), probe.Healthy)
			}
		}
		time.Sleep(6 * time.Second)
		w.expect(`
			5s ask live
			5s ask ready`)
		if w.changed != 0 {
			t.Error("a restart changed a result")
		}
		a.Forget("u")
	})
}
