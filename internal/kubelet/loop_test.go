package kubelet_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/kubelet"
	kubeletresource "github.com/gantry-project/gantry/internal/kubelet/resource"
)

// since is what the journal has of a Pod from a number of lines on.
func (r *rig) since(n int, pod string) string {
	var out []string
	for _, l := range strings.Split(r.facts.text(), "\n")[n:] {
		if strings.HasPrefix(l, pod+" ") {
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}

func (r *rig) lines() int { return len(strings.Split(r.facts.text(), "\n")) }

func (r *rig) rewrite(name string, change func(*v1.Pod)) {
	r.t.Helper()
	p := r.get(name).DeepCopy()
	change(p)
	if _, err := r.api.CoreV1().Pods("default").Update(context.Background(), p, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.advance(100 * time.Millisecond)
}

// Whatever a source says of a Pod is compared with what the Pod is: what is new is started, a
// change is acted on, a write of others to the status is taken note of and changes nothing, a
// deletion and a Pod that is left out end it.
//
// row: KSL-20
// row: KSL-21
func TestSourceReports(t *testing.T) {
	runTest(t, func(r *rig) {
		steps := []struct {
			op        string
			say       func()
			want, not string
		}{
			{"ADD", func() { r.create(pod("a", scriptContainer("app", runs))) },
				"a Accepted: received by the kubelet from source api", ""},
			{"RECONCILE", func() {
				r.rewrite("a", func(p *v1.Pod) {
					p.Status.Conditions = append(p.Status.Conditions,
						v1.PodCondition{Type: "example.com/others", Status: v1.ConditionTrue})
				})
			}, "", "a Planned"},
			{"UPDATE without effect",
				func() { r.rewrite("a", func(p *v1.Pod) { p.Labels = map[string]string{"x": "y"} }) }, "", "a Planned"},
			{"UPDATE", func() {
				r.rewrite("a", func(p *v1.Pod) { p.Spec.Containers[0].Image, p.Generation = "busybox:2", 2 })
			}, "a Planned: plan: [stop app", ""},
			{"DELETE", func() { r.delete("a", 1) }, "a Killing: stopping Pod: deleted, grace 1s", ""},
			{"ADD b", func() { r.create(pod("b", scriptContainer("app", runs))) }, "b Accepted", ""},
			{"REMOVE", func() {
				if err := r.api.Tracker().Delete(v1.SchemeGroupVersion.WithResource("pods"), "default", "b"); err !=
					nil {
					t.Fatal(err)
				}
				r.advance(100 * time.Millisecond)
			}, "b Killing: stopping Pod: removed from its source", ""},
		}
		for _, s := range steps {
			n := r.lines()
			if s.op == "ADD" {
				n = 0
			}
			s.say()
			name := "a"
			if strings.HasPrefix(s.want, "b ") {
				name = "b"
			}
			got := r.since(n, name)
			if !strings.Contains(got, s.want) || s.not != "" && strings.Contains(got, s.not) {
				t.Errorf("%s: got\n%s\nwant %q and not %q", s.op, got, s.want, s.not)
			}
			if !strings.HasPrefix(s.op, "DELETE") {
				r.advance(5 * time.Second) // let it come to rest
			}
		}
	})
}

// Each thing that can happen to a node that is at rest reaches the Pod it is about, and only that:
// a source's word, the runtime's, a probe's answer, the time that a plan named; and what nobody
// speaks of is found by looking.
//
// row: KSL-22
// row: KSL-30
func TestEachChannelReachesItsPod(t *testing.T) {
	runTest(t, func(r *rig) {
		a := r.serveProbes()
		web := scriptContainer("app", runs)
		web.LivenessProbe = probeSpec("live", 5, 1)
		r.create(pod("web", web))
		r.create(pod("other", scriptContainer("app", runs)))
		r.advance(20 * time.Second)
		orphan := filepath.Join(r.root, "kubelet", "pods", "uid-orphan")
		for _, c := range []struct {
			channel string
			happens func()
			within  time.Duration
			want    string
		}{
			{"source", func() { r.rewrite("web", func(p *v1.Pod) { p.Spec.Containers[0].Image = "busybox:1@x" }) },
				time.Second, "web Planned: plan: [stop app"},
			{"source again", func() { r.rewrite("web", func(p *v1.Pod) { p.Spec.Containers[0].Image = "busybox:1" }) },
				time.Minute, "web Planned: plan: [start app"},
			{"runtime", func() { r.kill("web") }, 100 * time.Millisecond, "web ContainerExited: container app exited"},
			{"time of a plan", func() {}, time.Minute, "web ContainerStarted: container app started"},
			{"probe", func() { a.fail("live") }, 6 * time.Second, "web Killing: stopping container app"},
			{"housekeeping", func() {
				if err := os.MkdirAll(orphan, 0o755); err != nil {
					t.Fatal(err)
				}
			}, 2100 * time.Millisecond, ""},
		} {
			n := r.lines()
			c.happens()
			r.advance(c.within)
			if got := r.since(n, "web"); !strings.Contains(got, c.want) {
				t.Errorf("%s: got %s, want it with %v", c.channel, got, c.want)
			}
			if got := r.since(n, "other"); strings.Contains(got, "Planned") {
				t.Errorf("%s: others are touched: got %s, want it free of %q", c.channel, got, "Planned")
			}
		}
		if _, err := os.Stat(orphan); err == nil {
			t.Error("the directory of a Pod that nobody has is still there")
		}
	})
}

// A Pod that only the runtime has is ended with all that it has there.
//
// row: KSL-24
func TestPodsThatOnlyTheRuntimeHasEnd(t *testing.T) {
	runTest(t, func(r *rig) {
		r.create(pod("web", scriptContainer("app", runs)))
		r.runForeign("lost")
		r.advance(4 * time.Second)
		if strings.Contains(r.fake.Dump(), "lost") {
			t.Errorf("the runtime still has a Pod that nobody has\n%s", r.fake.Dump())
		}
		r.phase("web", v1.PodRunning)
	})
}

// A runtime that cannot be asked what it has is asked again, though it tells of no change.
//
// row: KSL-24
func TestALookForLostPodsThatFailsIsRepeated(t *testing.T) {
	runTest(t, func(r *rig) {
		r.stop()
		l := r.connectWatches()
		l.disconnect()
		r.start()
		r.runForeign("lost") // seen while the API server, which may have it, does not answer
		r.advance(3 * time.Second)
		if err := r.fake.Fault("ListPodSandbox", "error(not now)"); err != nil {
			t.Fatal(err)
		}
		l.reconnect()
		r.advance(time.Minute)
		if !strings.Contains(r.fake.Dump(), "lost") {
			t.Fatalf("got the Pod ended, want it there while the runtime cannot be asked\n%s", r.fake.Dump())
		}
		if err := r.fake.Fault("ListPodSandbox", ""); err != nil {
			t.Fatal(err)
		}
		r.advance(15 * time.Second)
		if strings.Contains(r.fake.Dump(), "lost") {
			t.Errorf("got a Pod that nobody has 15s after the runtime answers, want it ended\n%s", r.fake.Dump())
		}
	})
}

// runForeign has the runtime run a Pod that the kubelet did not start.
func (r *rig) runForeign(name string) {
	r.t.Helper()
	labels := map[string]string{"io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": "default",
		"io.kubernetes.pod.uid": "uid-" + name}
	box := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default",
		Uid: "uid-" + name}, Labels: labels, LogDirectory: r.t.TempDir(), Linux: &runtimeapi.LinuxPodSandboxConfig{}}
	id, err := r.cri.Runtime().RunPodSandbox(context.Background(), box, "")
	if err != nil {
		r.t.Fatal(err)
	}
	own := maps.Clone(labels)
	own["io.kubernetes.container.name"] = "app"
	c, err := r.cri.Runtime().CreateContainer(context.Background(), id, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "busybox:1"},
		Command: []string{"sh", "-c", runs}, Labels: own, LogPath: "app.log",
		Linux: &runtimeapi.LinuxContainerConfig{}}, box)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.cri.Runtime().StartContainer(context.Background(), c); err != nil {
		r.t.Fatal(err)
	}
}

// What is left on disk and in the cgroups of a Pod that nobody has goes within two seconds, and so
// does what could not be taken away at first.
//
// row: KSL-24
func TestHousekeepingRemovesOrphans(t *testing.T) {
	runTest(t, func(r *rig) {
		r.create(pod("web", scriptContainer("app", runs)))
		logs := filepath.Join(r.root, "logs", "default_gone_uid-gone")
		dir := filepath.Join(r.root, "kubelet", "pods", "uid-gone", "volumes")
		for _, d := range []string{logs, dir} {
			if err := os.MkdirAll(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.groups.Ensure("/kubepods/besteffort/poduid-gone", kubeletresource.Values{}); err != nil {
			t.Fatal(err)
		}
		r.advance(2100 * time.Millisecond)
		for _, d := range []string{logs, filepath.Dir(dir)} {
			if _, err := os.Stat(d); err == nil {
				t.Errorf("%s is still there", d)
			}
		}
		if left := r.groups.pods(); len(left) != 1 {
			t.Errorf("cgroups %v", left)
		}
		r.phase("web", v1.PodRunning)
	})
}

// A Pod without events is synced again by syncFrequency, without a word to the
// runtime and without a plan.
//
// row: KSL-28
// row: KSL-31
func TestSyncFrequency(t *testing.T) {
	runTest(t, func(r *rig) {
		r.stop()
		rounds := 0
		r.with = func(o *kubelet.Options) {
			o.Config.SyncFrequency = metav1.Duration{Duration: time.Minute}
			o.Dependencies.LocalNode = nil
			o.Dependencies.HostIPs = func() []string { rounds++; return []string{"192.0.2.1"} } // asked once a status
		}
		r.start()
		r.create(pod("web", scriptContainer("app", runs)))
		r.phase("web", v1.PodRunning)
		r.advance(time.Minute)
		for range 5 {
			before, plans, calls := rounds, strings.Count(r.facts.text(), "Planned"),
				r.fake.Count("ContainerStatus")+r.fake.Count("PodSandboxStatus")
			r.advance(90 * time.Second) // a minute, and up to half of it more
			if rounds == before {
				t.Error("not decided on again")
			}
			if n := strings.Count(r.facts.text(), "Planned"); n != plans {
				t.Error("a Pod at rest has a plan")
			}
			if n := r.fake.Count("ContainerStatus") + r.fake.Count("PodSandboxStatus"); n != calls {
				t.Errorf("%d questions to the runtime", n-calls)
			}
		}
	})
}

// A call whose answer is lost has been carried out: the kubelet looks, finds what is there, and
// makes nothing twice.
//
// row: PWK-33
func TestLostAnswersMakeNothingTwice(t *testing.T) {
	for _, method := range []string{"RunPodSandbox", "CreateContainer", "StartContainer"} {
		t.Run(method, func(t *testing.T) {
			runTest(t, func(r *rig) {
				if err := r.fake.Fault(method, "1*drop->ok"); err != nil {
					t.Fatal(err)
				}
				r.create(pod("web", scriptContainer("app", runs)))
				r.advance(time.Minute)
				r.phase("web", v1.PodRunning)
				if n := strings.Count(r.fake.Dump(), "pod default/"); n != 1 {
					t.Errorf("%d sandboxes\n%s", n, r.fake.Dump())
				}
				if n := strings.Count(r.fake.Dump(), "app attempt="); n != 1 {
					t.Errorf("%d containers\n%s", n, r.fake.Dump())
				}
				r.delete("web", 1)
				r.advance(5 * time.Second)
				r.expectPodGone("web")
			})
		})
	}
}

// The API is asked for the Pods of this node only, and the watch begins where the list ended.
//
// row: KSL-06
// row: KSL-13
func TestWatchIsLimitedToThisNode(t *testing.T) {
	runTest(t, func(r *rig) {
		r.advance(time.Second)
		listed, watched := false, false
		for _, a := range r.api.Actions() {
			if a.GetResource().Resource != "pods" {
				continue
			}
			switch a := a.(type) {
			case clienttesting.ListActionImpl:
				listed = true
				if got := a.GetListRestrictions().Fields.String(); got != "spec.nodeName=n1" {
					t.Errorf("list of %q", got)
				}
			case clienttesting.WatchActionImpl:
				watched = true
				if got := a.GetWatchRestrictions().Fields.String(); got != "spec.nodeName=n1" {
					t.Errorf("watch of %q", got)
				}
				if a.ListOptions.ResourceVersion == "" {
					t.Error("the watch does not say where the list ended")
				}
			}
		}
		if !watched {
			t.Errorf("listed %t, watched %t: %v", listed, watched, r.api.Actions())
		}
	})
}

// countingCgroups counts how often the node's cgroups are looked through.
type countingCgroups struct {
	kubelet.Cgroups
	at    string
	times atomic.Int32
}

func (l *countingCgroups) List(parent string) ([]string, error) {
	if parent == l.at {
		l.times.Add(1)
	}
	return l.Cgroups.List(parent)
}

// Housekeeping comes every two seconds, or as seldom as it is wanted.
//
// row: KSL-25
func TestHousekeepingPeriod(t *testing.T) {
	for _, x := range []struct {
		period time.Duration
		want   int32
	}{{0, 30}, {10 * time.Second, 6}} {
		runTest(t, func(r *rig) {
			r.stop()
			l := &countingCgroups{Cgroups: r.groups, at: "/kubepods"}
			r.with = func(o *kubelet.Options) { o.Housekeeping, o.Dependencies.Cgroups = x.period, l }
			r.start()
			r.advance(5 * time.Second)
			before := l.times.Load()
			r.advance(time.Minute)
			if got := l.times.Load() - before; got != x.want {
				t.Errorf("period %s: %d times in a minute, want %d", x.period, got, x.want)
			}
		})
	}
}
