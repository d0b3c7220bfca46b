package podworker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/metrics"
	"github.com/gantry-project/gantry/internal/kubelet/podactions"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	"github.com/gantry-project/gantry/internal/kubelet/probe"
	"github.com/gantry-project/gantry/internal/kubelet/prober"
	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/test/wrappers"
)

// testRuntime is every port of a Pool: a runtime of values whose actions take as long as the test
// says.
type testRuntime struct {
	mu      sync.Mutex
	seen    map[types.UID]podplan.Observed
	actions []string
	takes   map[string]time.Duration
	keeps   bool // it goes on listing sandboxes that it has removed
}

func (w *testRuntime) GetPodStatus(_ context.Context, uid types.UID) (podplan.Observed, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[uid], nil
}

func (w *testRuntime) Do(ctx context.Context, j podactions.Job, a podplan.Action) error {
	w.mu.Lock()
	w.actions = append(w.actions, string(j.Pod.UID)+" "+a.Line()+" "+j.Pod.Labels["rev"])
	d := w.takes[a.Line()]
	w.mu.Unlock()
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.seen[j.Pod.UID]
	switch a := a.(type) {
	case podplan.CreateSandbox:
		o.Sandboxes = []podplan.Sandbox{{ID: "s", Ready: true, Created: time.Now(), IPs: []string{"10.0.0.1"}}}
	case podplan.Start:
		o.Containers = append(o.Containers, podplan.Container{ID: a.Name, Name: a.Name, Sandbox: "s",
			State: podplan.Running, Started: time.Now()})
	case podplan.Stop:
		o.Containers = []podplan.Container{}
	case podplan.StopSandbox, podplan.RemoveSandbox:
		o.Sandboxes = nil
		if w.keeps {
			o.Sandboxes = []podplan.Sandbox{{ID: "s"}}
		}
	}
	w.seen[j.Pod.UID] = o
	return nil
}

func (w *testRuntime) Refresh(context.Context, *v1.Pod) error                { return nil }
func (w *testRuntime) Forget(types.UID)                                      {}
func (w *testRuntime) SetPodStatus(*v1.Pod, v1.PodStatus)                    {}
func (w *testRuntime) DeletePod(*v1.Pod)                                     {}
func (w *testRuntime) RemoveStatus(types.UID)                                {}
func (w *testRuntime) SyncPod(*v1.Pod, string, []prober.Running, prober.End) {}
func (w *testRuntime) Health(probe.Key) (probe.Health, bool)                 { return probe.Pending, false }
func (w *testRuntime) Event(runtime.Object, string, string, string)          {}
func (w *testRuntime) Put(journal.Ref, journal.Fact)                         {}
func (w *testRuntime) admit(_ *v1.Pod, others []*v1.Pod) ([]*v1.Pod, *reason.Refusal) {
	return nil, nil
}

func (w *testRuntime) actionsSoFar() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.actions...)
}

func begin(t *testing.T, takes map[string]time.Duration) (*testRuntime, *Pool) {
	w := &testRuntime{seen: map[types.UID]podplan.Observed{}, takes: takes}
	p := New(Deps{
		Runtime: w, Actions: w, Statuses: w, Probes: w, Admit: w.admit,
		Node: func() podstatus.Node { return podstatus.Node{} }, Events: events.New(w), Journal: w,
	})
	ctx, cancel := context.WithCancel(context.Background())
	p.Start(ctx)
	t.Cleanup(func() { cancel(); p.Wait() })
	return w, p
}

func testPod(uid, rev string) *v1.Pod {
	return wrappers.MakePod().Namespace("default").Name("p").UID(uid).Label("rev", rev).Container("c", "").Obj()
}

// row: PWK-03
func TestNewestUpdateWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := begin(t, map[string]time.Duration{"furnish": time.Second})
		p.UpdatePod(UpdatePodOptions{Pod: testPod("1", "0"), Source: "api"})
		synctest.Wait()
		for _, rev := range []string{"1", "2", "3", "4", "5"} {
			p.UpdatePod(UpdatePodOptions{Pod: testPod("1", rev), Source: "api"})
		}
		time.Sleep(time.Second) // what is under way ends then
		synctest.Wait()
		got := w.actionsSoFar()
		want := []string{"1 furnish 0", "1 create sandbox 0", "1 start c 5"} // the first two are one plan
		if len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
			t.Errorf("got %q, want 3 in got, got[0] %v, got[1] %v and got[2] %v", got, want[0], want[1], want[2])
		}
	})
}

// A static Pod that its source takes away and has again while it still ends runs again under its
// UID, which is counted.
//
// row: OPS-11
func TestAStaticPodThatIsThereAgainIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := begin(t, map[string]time.Duration{"furnish": time.Second})
		p.d.Metrics = metrics.New()
		static := testPod("1", "")
		static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		p.UpdatePod(UpdatePodOptions{Pod: static, Source: "file"})
		time.Sleep(2 * time.Second)
		restarted := func() string {
			to := httptest.NewRecorder()
			p.d.Metrics.Handler().ServeHTTP(to, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			var out []string
			for line := range strings.Lines(to.Body.String()) {
				if strings.HasPrefix(line, "kubelet_restarted_pods_total") {
					out = append(out, strings.TrimSpace(line))
				}
			}
			return strings.Join(out, "\n")
		}
		const family = "kubelet_restarted_pods_total"
		const none = family + `{static=""} 0` + "\n" + family + `{static="true"} 0`
		const one = family + `{static=""} 0` + "\n" + family + `{static="true"} 1`
		if got := restarted(); got != none {
			t.Errorf("before: got %q, want %q", got, none)
		}
		p.UpdatePod(UpdatePodOptions{Pod: static, Source: "file", Gone: true,
			Termination: &podplan.Termination{Cause: "deleted", RequestedAt: time.Now(), Grace: time.Second}})
		p.UpdatePod(UpdatePodOptions{Pod: static, Source: "file"})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		starts := 0
		for _, a := range w.actionsSoFar() {
			starts += strings.Count(a, "start c")
		}
		if got := restarted(); got != one || starts != 2 {
			t.Errorf("it ended and started %d times: got %q, want 2 and %q", starts, got, one)
		}
	})
}

// A runtime that goes on listing a sandbox that it has removed is asked again, once a second.
func TestARuntimeThatListsWhatItRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := begin(t, nil)
		w.keeps = true
		p.UpdatePod(UpdatePodOptions{Pod: testPod("1", ""), Source: "api"})
		synctest.Wait()
		p.UpdatePod(UpdatePodOptions{Pod: testPod("1", ""), Source: "api", Gone: true,
			Termination: &podplan.Termination{Cause: "deleted", RequestedAt: time.Now(), Grace: time.Second}})
		time.Sleep(5500 * time.Millisecond)
		removed := 0
		for _, a := range w.actionsSoFar() {
			removed += strings.Count(a, "remove sandbox")
		}
		if removed < 4 || removed > 6 || !p.IsKnown("1") {
			t.Errorf("got %d removals in 5.5 s and a worker %t, want 4 to 6 and true", removed, p.IsKnown("1"))
		}
		w.mu.Lock()
		w.seen["1"] = podplan.Observed{}
		w.mu.Unlock()
		p.Wake("1")
		time.Sleep(2 * time.Second)
		if p.IsKnown("1") {
			t.Error("got a worker, want none: the runtime lists the sandbox no more")
		}
	})
}

// row: PWK-08
// row: PWK-09
func TestStopInterruptsAndNothingStartsAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := begin(t, map[string]time.Duration{"start c": time.Hour})
		p.UpdatePod(UpdatePodOptions{Pod: testPod("1", ""), Source: "api"})
		synctest.Wait()
		startedAt := time.Now()
		p.UpdatePod(UpdatePodOptions{Pod: testPod("1", ""), Source: "api", Gone: true,
			Termination: &podplan.Termination{Cause: "deleted", RequestedAt: startedAt, Grace: time.Second}})
		time.Sleep(time.Second)
		synctest.Wait()
		if p.IsKnown("1") {
			t.Error("the worker is still there")
		}
		acts := w.actionsSoFar()
		if last := acts[len(acts)-1]; last != "1 release with logs " {
			t.Errorf(`got %q, want last "1 release with logs"`, acts)
		}
		after := false
		for _, a := range acts {
			if after && a == "1 start c " {
				t.Errorf("got calls %q, want container c not started after the stop", acts)
			}
			after = after || a == "1 start c "
		}
	})
}

// slowRelease is a fixture whose containers end with 0 when they are stopped.
type slowRelease struct{ *testRuntime }

func (l slowRelease) Do(ctx context.Context, j podactions.Job, a podplan.Action) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.actions = append(l.actions, a.Line())
	o := l.seen[j.Pod.UID]
	o.Containers, o.Sandboxes = slices.Clone(o.Containers), slices.Clone(o.Sandboxes)
	switch a := a.(type) {
	case podplan.CreateSandbox:
		id := fmt.Sprintf("s%d", a.Attempt)
		o.Sandboxes = append([]podplan.Sandbox{{ID: id, Attempt: a.Attempt, Ready: true}}, o.Sandboxes...)
	case podplan.StopSandbox:
		for i := range o.Sandboxes {
			o.Sandboxes[i].Ready = o.Sandboxes[i].Ready && o.Sandboxes[i].ID != a.ID
		}
	case podplan.Start:
		o.Containers = append([]podplan.Container{{ID: a.Name + a.Sandbox, Name: a.Name, Sandbox: a.Sandbox,
			Attempt: a.Attempt, State: podplan.Running, Started: time.Now()}}, o.Containers...)
	case podplan.Stop:
		for i := range o.Containers {
			o.Containers[i].State, o.Containers[i].Finished = podplan.Exited, time.Now()
		}
	}
	l.seen[j.Pod.UID] = o
	return nil
}

func TestContainerStoppedWithItsSandboxRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := begin(t, nil)
		p.d.Actions = slowRelease{w}
		pod := testPod("1", "")
		pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		p.UpdatePod(UpdatePodOptions{Pod: pod, Source: "api"})
		synctest.Wait()
		w.mu.Lock()
		o := w.seen["1"]
		o.Sandboxes = []podplan.Sandbox{{ID: "s0"}} // died
		w.seen["1"] = o
		w.mu.Unlock()
		p.Wake("1")
		time.Sleep(time.Second)
		synctest.Wait()
		v, _ := p.View("1")
		if c := v.Observed.Latest("c"); c == nil || c.State != podplan.Running || c.Sandbox != "s1" || c.Attempt != 1 {
			t.Errorf("%+v after %q", c, w.actionsSoFar())
		}
	})
}

// row: PWK-05
func TestLateUpdateOfRemovedPodIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := begin(t, nil)
		gone := UpdatePodOptions{Pod: testPod("1", ""), Source: "api", Gone: true, Termination: &podplan.Termination{}}
		p.UpdatePod(gone)
		synctest.Wait()
		if p.IsKnown("1") || len(w.actionsSoFar()) != 0 {
			t.Errorf("got %q, want IsKnown false and no w.actionsSoFar()", w.actionsSoFar())
		}
		p.UpdatePod(UpdatePodOptions{Pod: testPod("1", ""), Source: "api"})
		synctest.Wait()
		deleted := UpdatePodOptions{Pod: testPod("1", ""), Source: "api",
			Termination: &podplan.Termination{Cause: "deleted", RequestedAt: time.Now()}}
		p.UpdatePod(deleted)
		time.Sleep(time.Minute)
		synctest.Wait()
		before := w.actionsSoFar()
		late := deleted
		late.Pod, late.Termination = testPod("1", "late"), nil // as of a watch that is behind
		for _, n := range []UpdatePodOptions{deleted, late, gone, gone} {
			p.UpdatePod(n)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		if after := w.actionsSoFar()[len(before):]; p.IsKnown("1") || len(after) != 1 ||
			after[0] != "1 release with logs " {
			t.Errorf("known %t, got %q after its end, want only the removal of its logs when its source has it no more",
				p.IsKnown("1"), after)
		}
		// One that comes while the Pod, gone from its source, still ends.
		p.UpdatePod(UpdatePodOptions{Pod: testPod("2", ""), Source: "api"})
		time.Sleep(time.Minute)
		p.UpdatePod(UpdatePodOptions{Pod: testPod("2", ""), Source: "api", Gone: true,
			Termination: &podplan.Termination{Cause: "deleted", RequestedAt: time.Now()}})
		p.UpdatePod(UpdatePodOptions{Pod: testPod("2", "late"), Source: "api"})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if p.IsKnown("2") {
			t.Errorf("a Pod that ended begins again with a late update: %q", w.actionsSoFar()[len(before):])
		}
	})
}

// row: PWK-03
func TestMergeUpdates(t *testing.T) {
	at := time.Unix(0, 0)
	draw := func(t *rapid.T, label string) *podplan.Termination {
		if rapid.Bool().Draw(t, label+" none") {
			return nil
		}
		return &podplan.Termination{
			Cause:       rapid.SampledFrom([]string{"deleted", "evicted"}).Draw(t, label+" cause"),
			RequestedAt: at.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, label+" asked")) * time.Second),
			Grace:       time.Duration(rapid.IntRange(0, 20).Draw(t, label+" grace")) * time.Second,
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t, "old"), draw(t, "new")
		old := UpdatePodOptions{Pod: testPod("1", "old"), Termination: a, Gone: rapid.Bool().Draw(t, "gone")}
		merged := mergeUpdates(old, UpdatePodOptions{Pod: testPod("1", "new"), Termination: b})
		if merged.Pod.Labels["rev"] != "new" || old.Gone && !merged.Gone {
			t.Fatalf("got %+v, want revision new, and gone once it was", merged)
		}
		for _, e := range []*podplan.Termination{a, b} {
			if e != nil && (merged.Termination == nil || merged.Termination.Deadline().After(e.Deadline())) {
				t.Fatalf("%+v and %+v became %+v", a, b, merged.Termination)
			}
		}
		if a != nil && merged.Termination.Cause != a.Cause {
			t.Fatalf("the first cause is not kept: got %v, want %v", merged.Termination.Cause, a.Cause)
		}
	})
}

// statusRecorder is a fixture that keeps the last status.
type statusRecorder struct {
	*testRuntime
	status v1.PodStatus
}

func (s *statusRecorder) SetPodStatus(_ *v1.Pod, status v1.PodStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// A late event of one container is shown although the start of the next is under
// way, which may wait for an image for long.
func TestAContainerIsShownToRunWhileTheNextStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := begin(t, map[string]time.Duration{"start d": time.Hour})
		s := &statusRecorder{testRuntime: w}
		p.d.Statuses = s
		pod := testPod("1", "")
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: "d"})
		p.UpdatePod(UpdatePodOptions{Pod: pod, Source: "api"})
		synctest.Wait()
		if acts := w.actionsSoFar(); acts[len(acts)-1] != "1 start d " {
			t.Fatalf(`got %q, want acts[len(acts) - 1] "1 start d"`, acts)
		}
		p.WakeForStart("1")
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if c := s.status.ContainerStatuses; len(c) != 2 || c[0].State.Running == nil || c[1].State.Running != nil {
			t.Errorf("shown: got %+v, want 2 of them and [0].State.Running set and [1].State.Running nil", c)
		}
	})
}

// cgroupActions is a fixture that reports Pod directories and cgroup half-way through volume
// set-up, unless it lacks something, and whose volume set-up may fail.
type cgroupActions struct {
	*testRuntime
	noCgroup bool
	fails    error
}

func (g cgroupActions) Do(ctx context.Context, j podactions.Job, a podplan.Action) error {
	if a != (podplan.PrepareVolumes{}) {
		return g.testRuntime.Do(ctx, j, a)
	}
	time.Sleep(500 * time.Millisecond)
	if !g.noCgroup {
		j.CgroupReady()
	}
	time.Sleep(500 * time.Millisecond)
	return g.fails
}

// The sandbox is created beside the second half of volume set-up; it does not start without Pod
// directories and cgroup, and is given up when volume set-up fails, which alone is reported.
//
// row: PWK-12
func TestSandboxBesideVolumes(t *testing.T) {
	for name, c := range map[string]struct {
		lacks  bool
		fails  error
		starts time.Duration // 0: never
		tries  string
		acts   string
	}{
		"both succeed":      {starts: 2500 * time.Millisecond, acts: "1 create sandbox ,1 start c "},
		"ground comes last": {lacks: true, starts: 3 * time.Second, acts: "1 create sandbox ,1 start c "},
		"furnishing fails":  {fails: errors.New("no"), tries: podplan.PrepareVolumesTry, acts: "1 create sandbox "},
		"nothing was begun": {lacks: true, fails: errors.New("no"), tries: podplan.PrepareVolumesTry},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &testRuntime{seen: map[types.UID]podplan.Observed{},
					takes: map[string]time.Duration{"create sandbox": 2 * time.Second}}
				p := New(Deps{
					Runtime: w, Actions: cgroupActions{w, c.lacks, c.fails}, Statuses: w, Probes: w, Admit: w.admit,
					Node: func() podstatus.Node { return podstatus.Node{} }, Events: events.New(w), Journal: w,
				})
				ctx, cancel := context.WithCancel(context.Background())
				t.Cleanup(func() { cancel(); p.Wait() })
				p.Start(ctx)
				p.UpdatePod(UpdatePodOptions{Pod: testPod("1", ""), Source: "api"})
				startedAt := time.Now()
				time.Sleep(1100 * time.Millisecond)
				synctest.Wait()
				if c.fails == nil {
					time.Sleep(time.Until(startedAt.Add(c.starts - time.Millisecond)))
					synctest.Wait()
					if acts := w.actionsSoFar(); slices.Contains(acts, "1 start c ") {
						t.Errorf("started before both were done: %q", acts)
					}
					time.Sleep(time.Millisecond)
					synctest.Wait()
				}
				if got := strings.Join(w.actionsSoFar(), ","); got != c.acts {
					t.Errorf("actions %q, want %q", got, c.acts)
				}
				p.mu.Lock()
				defer p.mu.Unlock()
				var tries []string
				for name := range p.workers["1"].tries {
					tries = append(tries, name)
				}
				if got := strings.Join(tries, ","); got != c.tries {
					t.Errorf("failed %q, want %q", got, c.tries)
				}
				if boxes := w.seen["1"].Sandboxes; (len(boxes) > 0) != (c.fails == nil) {
					t.Errorf("sandboxes %v", boxes)
				}
			})
		})
	}
}
