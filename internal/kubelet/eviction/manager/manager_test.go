package manager_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/kubelet/eviction/manager"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

const (
	mi = 1 << 20
	gi = 1 << 30
)

// testNode is a node with Pods that hold memory and disk.
type testNode struct {
	t      *testing.T
	d      manager.Deps
	events *record.FakeRecorder
	kernel chan string
	cancel func()
	m      *manager.Manager

	mu         sync.Mutex
	observedAt []time.Time
	free       int64 // of memory and, the same number, of bytes and inodes of nodefs and imagefs
	disks      eviction.Disks
	pods       []*v1.Pod
	use        map[types.UID]int64
	ended      []string
	ends       map[string]podplan.Termination
	stuck      bool // Pods that are asked to end do not
	keeps      bool // what Pods held does not come back
	reclaims   int64
	reclaimed  []eviction.Reclaim
	facts      []journal.Fact
	changed    int
	fruitless  []string
	unreadable error
}

func (w *testNode) Put(_ journal.Ref, f journal.Fact) { w.facts = append(w.facts, f) }

// run runs a test on a node in virtual time. The threshold is 10Gi.
func run(t *testing.T, signal eviction.Signal, test func(w *testNode)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		list, errs := eviction.Thresholds(eviction.Settings{Hard: map[string]string{string(signal): "10Gi"}})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		w := &testNode{t: t, free: 50 * gi, use: map[types.UID]int64{}, ends: map[string]podplan.Termination{},
			events: record.NewFakeRecorder(1000), kernel: make(chan string, 1)}
		reclaim := func(what eviction.Reclaim) func(context.Context) error {
			return func(context.Context) error {
				w.reclaimed, w.free = append(w.reclaimed, what), w.free+w.reclaims
				return nil
			}
		}
		w.d = manager.Deps{
			Config: eviction.Config{Thresholds: list, PressureTransition: 5 * time.Minute, FruitlessEvictions: 3,
				FruitlessHoldPeriod: 5 * time.Minute},
			Node: &v1.ObjectReference{Kind: "Node", Name: "n1"}, Observe: w.observe, Measure: w.measure,
			Pods: func() []*v1.Pod { return w.pods }, KillPod: w.kill,
			CleanedUp: func(uid types.UID) bool { return !w.hasPod(uid) },
			Reclaim: map[eviction.Reclaim]func(context.Context) error{
				eviction.DeadContainers: reclaim(eviction.DeadContainers),
				eviction.UnusedImages:   reclaim(eviction.UnusedImages)},
			Events: w.events, Journal: w, Changed: func() { w.changed++ },
			Metrics: manager.Metrics{
				Fruitless: func(s string, n int) { w.fruitless = append(w.fruitless, fmt.Sprint(s, " ", n)) }},
		}
		test(w)
		if w.cancel != nil {
			w.cancel()
		}
		synctest.Wait()
	})
}

func (w *testNode) begin() {
	ctx, cancel := context.WithCancel(w.t.Context())
	w.cancel, w.m = cancel, manager.New(w.d)
	go w.m.Run(ctx)
	synctest.Wait()
}

func (w *testNode) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *testNode) observe(context.Context) (eviction.Figures, eviction.Disks, error) {
	now := time.Now()
	w.observedAt = append(w.observedAt, now)
	o := &eviction.Observation{At: now, Available: w.free, Capacity: 100 * gi}
	return eviction.Figures{Memory: o, NodeFs: eviction.Filesystem{Bytes: o, Inodes: o},
		ImageFs: eviction.Filesystem{Bytes: o, Inodes: o}}, w.disks, w.unreadable
}

func (w *testNode) measure(context.Context, v1.ResourceName, []*v1.Pod) (map[types.UID]eviction.PodUse, error) {
	out := map[types.UID]eviction.PodUse{}
	for uid, n := range w.use {
		out[uid] = eviction.PodUse{Memory: &n,
			Containers: []eviction.ContainerUse{{Name: "app", Layer: &eviction.Space{Bytes: n},
				Logs: &eviction.Space{}}}}
	}
	return out, nil
}

func (w *testNode) add(name string, use int64) {
	p := &v1.Pod{}
	p.Name, p.Namespace, p.UID = name, "default", types.UID(name)
	p.Spec.Containers = []v1.Container{{Name: "app"}}
	w.pods, w.use[p.UID] = append(w.pods, p), use
}

func (w *testNode) hasPod(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.pods, func(p *v1.Pod) bool { return p.UID == uid })
}

// kill has the Pod end after a second, with what it held given back.
func (w *testNode) kill(uid types.UID, end podplan.Termination) (<-chan struct{}, bool) {
	w.ended, w.ends[string(uid)] = append(w.ended, string(uid)), end
	terminated := make(chan struct{})
	if w.stuck {
		return terminated, true
	}
	time.AfterFunc(time.Second, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.pods = slices.DeleteFunc(slices.Clone(w.pods), func(p *v1.Pod) bool { return p.UID == uid })
		if !w.keeps {
			w.free += w.use[uid]
		}
		close(terminated)
	})
	return terminated, true
}

func (w *testNode) eventsSeen() []string {
	var out []string
	for len(w.events.Events) > 0 {
		out = append(out, <-w.events.Events)
	}
	return out
}

// row: EVC-16
func TestTheNodeIsLookedAtEveryTenSeconds(t *testing.T) {
	run(t, eviction.MemoryAvailable, func(w *testNode) {
		w.begin()
		for i := 1; i <= 3; i++ {
			if len(w.observedAt) != i {
				t.Fatalf("got %d looks, want %d", len(w.observedAt), i)
			}
			w.pass(9 * time.Second)
			if len(w.observedAt) != i {
				t.Errorf("9 s later: got %d looks, want %d still", len(w.observedAt), i)
			}
			w.pass(time.Second)
		}
	})
}

func TestKernelNoticeStartsAnObservation(t *testing.T) {
	run(t, eviction.MemoryAvailable, func(w *testNode) {
		notices := make(chan string, 1)
		w.d.Notices = notices
		w.add("hog", 20*gi)
		w.begin()
		w.pass(3 * time.Second)
		w.free = gi
		notices <- "memory pressure"
		synctest.Wait()
		if len(w.ended) != 1 || time.Since(w.ends["hog"].RequestedAt) != 0 {
			t.Errorf("got %v ended, want hog at once", w.ended)
		}
	})
}

// aboutRecorder keeps what each event is about, beside its text.
type aboutRecorder struct {
	record.EventRecorder
	about []string
}

func (r *aboutRecorder) note(o runtime.Object, reason string) {
	ref := o.(*v1.ObjectReference)
	r.about = append(r.about, fmt.Sprintf("%s of %s %s/%s %s", reason, ref.Kind, ref.Namespace, ref.Name, ref.UID))
}

func (r *aboutRecorder) Eventf(o runtime.Object, kind, reason, format string, args ...any) {
	r.note(o, reason)
	r.EventRecorder.Eventf(o, kind, reason, format, args...)
}

func (r *aboutRecorder) AnnotatedEventf(o runtime.Object, notes map[string]string, kind, reason, format string,
	args ...any) {
	r.note(o, reason)
	r.EventRecorder.AnnotatedEventf(o, notes, kind, reason, format, args...)
}

// row: EVC-23
// row: EVC-28
func TestOnePodGoesAtATimeAndNoMoreThanNeeded(t *testing.T) {
	run(t, eviction.MemoryAvailable, func(w *testNode) {
		w.free = 4 * gi
		w.add("small", 2*gi)
		w.add("big", 5*gi)
		w.add("middle", 3*gi)
		events := &aboutRecorder{EventRecorder: w.events}
		w.d.Events = events
		w.begin()
		if !slices.Equal(w.ended, []string{"big"}) {
			t.Fatalf("at first: got %v, want big alone", w.ended)
		}
		w.pass(900 * time.Millisecond)
		if len(w.ended) != 1 {
			t.Errorf("while it ends: got %v, want nobody else", w.ended)
		}
		w.pass(500 * time.Millisecond) // it has ended, 9Gi are left
		if !slices.Equal(w.ended, []string{"big", "middle"}) {
			t.Errorf("when it has ended: got %v, want big, middle without waiting for ten seconds", w.ended)
		}
		w.pass(time.Minute)
		if len(w.ended) != 2 {
			t.Errorf("with 12Gi left: got %v, want small to stay", w.ended)
		}
		const want = "Warning Evicted The node was low on resource: memory. Threshold quantity: 10Gi, available: 4Gi. "
		if got := w.eventsSeen(); len(got) != 4 ||
			got[0] != "Warning EvictionThresholdMet Attempting to reclaim memory" ||
			!strings.HasPrefix(got[1], want) {
			t.Errorf("events: got %q, want two of each, the second %q", got, want)
		}
		node, pod := "EvictionThresholdMet of Node /n1 ", "Evicted of Pod default/"
		if want := []string{node, pod + "big big", node, pod + "middle middle"}; !slices.Equal(events.about, want) {
			t.Errorf("events are about %q, want %q", events.about, want)
		}
		end := w.ends["big"]
		if end.Reason != "Evicted" || end.Grace != time.Second || end.Victim != end.Message ||
			!strings.HasPrefix(end.Message, "The node was low on resource: memory.") {
			t.Errorf("got %+v, want Reason Evicted, 1 s and the message for status and condition", end)
		}
		if f, ok := w.facts[1].(journal.Evicted); !ok || f.Place != 1 || f.Of != 3 || f.Use != 5*gi ||
			f.Signal != "memory.available" {
			t.Errorf("fact: got %+v, want place 1 of 3 for memory.available", w.facts[1])
		}
	})
}

// The victim of a soft threshold gets its own grace, and what it takes at most of the
// configuration's; that of a hard one a second.
//
// row: EVC-09
// row: EVC-10
func TestTheVictimGetsItsGrace(t *testing.T) {
	for _, c := range []struct {
		own, want int64 // seconds
		hard      bool
	}{{300, 60, false}, {45, 45, false}, {300, 1, true}} {
		run(t, eviction.MemoryAvailable, func(w *testNode) {
			s := eviction.Settings{Hard: map[string]string{"memory.available": "10Gi"}}
			if !c.hard {
				s = eviction.Settings{Soft: s.Hard, SoftGracePeriod: map[string]string{"memory.available": "20s"}}
			}
			list, errs := eviction.Thresholds(s)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			w.d.Config.Thresholds, w.d.Config.MaxPodGrace = list, time.Minute
			w.free = 9 * gi
			w.add("web", 5*gi)
			w.pods[0].Spec.TerminationGracePeriodSeconds = &c.own
			w.begin()
			w.pass(19 * time.Second)
			if soon := len(w.ended) > 0; soon != c.hard {
				t.Errorf("hard %t: within 19 s got %v ended", c.hard, w.ended)
			}
			w.pass(2 * time.Second)
			if end, ok := w.ends["web"]; !ok || end.Grace != time.Duration(c.want)*time.Second ||
				end.Immediate != c.hard {
				t.Errorf("hard %t, %d s of its own: got %+v, want %d s", c.hard, c.own, end, c.want)
			}
		})
	}
}

// Each look shows all signals that were read, with value and capacity.
//
// row: EVC-01
func TestEachSignalIsShown(t *testing.T) {
	run(t, eviction.MemoryAvailable, func(w *testNode) {
		var shown []eviction.Observations
		w.d.Metrics.Observed = func(o eviction.Observations) { shown = append(shown, o) }
		at := func(n int64) *eviction.Observation {
			return &eviction.Observation{At: time.Now(), Available: n + int64(len(shown)), Capacity: 100 * n}
		}
		w.d.Observe = func(context.Context) (eviction.Figures, eviction.Disks, error) {
			return eviction.Figures{Memory: at(20 * gi), PodMemory: at(21 * gi), Processes: at(8),
				NodeFs:  eviction.Filesystem{Bytes: at(2), Inodes: at(3)},
				ImageFs: eviction.Filesystem{Bytes: at(4), Inodes: at(5)}}, eviction.Disks{}, nil
		}
		w.begin()
		w.pass(10 * time.Second)
		if len(shown) != 2 {
			t.Fatalf("shown %d times in two looks, want twice", len(shown))
		}
		for i, o := range shown {
			for signal, n := range map[eviction.Signal]int64{eviction.MemoryAvailable: 20 * gi,
				eviction.AllocatableMemoryAvailable: 21 * gi, eviction.NodeFsAvailable: 2, eviction.NodeFsInodesFree: 3,
				eviction.ImageFsAvailable: 4, eviction.ImageFsInodesFree: 5, eviction.PIDAvailable: 8} {
				if x := o[signal]; x.Available != n+int64(i) || x.Capacity != 100*n {
					t.Errorf("look %d, %s: got %+v, want %d of %d", i, signal, x, n+int64(i), 100*n)
				}
			}
		}
	})
}

// row: EVC-17
func TestReclaimComesBeforeEviction(t *testing.T) {
	both := []eviction.Reclaim{eviction.DeadContainers, eviction.UnusedImages}
	for _, c := range []struct {
		frees int64
		ended int
	}{{4 * gi, 0}, {gi, 1}} {
		run(t, eviction.NodeFsAvailable, func(w *testNode) {
			w.free, w.reclaims = 5*gi, c.frees
			w.add("web", 9*gi)
			w.begin()
			if !slices.Equal(w.reclaimed, both) || len(w.ended) != c.ended {
				t.Errorf("each frees %d: got %v reclaimed and %v ended, want both and %d", c.frees, w.reclaimed,
					w.ended,
					c.ended)
			}
			w.pass(11 * time.Second)
			if len(w.ended) != c.ended {
				t.Errorf("ten seconds later: got %v ended, want %d", w.ended, c.ended)
			}
		})
	}
	for _, c := range []struct {
		signal eviction.Signal
		disks  eviction.Disks
		want   []eviction.Reclaim
	}{
		{eviction.NodeFsInodesFree, eviction.Disks{}, both},
		{eviction.ImageFsAvailable, eviction.Disks{DedicatedImageFs: true}, both},
		{eviction.ImageFsInodesFree, eviction.Disks{DedicatedImageFs: true}, both},
		{eviction.NodeFsAvailable, eviction.Disks{DedicatedImageFs: true, SplitImageFs: true}, both[:1]},
		{eviction.NodeFsInodesFree, eviction.Disks{DedicatedImageFs: true, SplitImageFs: true}, both[:1]},
		{eviction.ImageFsAvailable, eviction.Disks{DedicatedImageFs: true, SplitImageFs: true}, both[1:]},
	} {
		run(t, c.signal, func(w *testNode) {
			w.free, w.reclaims, w.disks = 5*gi, 6*gi, c.disks
			w.add("web", 9*gi)
			w.begin()
			if !slices.Equal(w.reclaimed, c.want) || len(w.ended) != 0 {
				t.Errorf("%s of %+v: got %v reclaimed and %v ended, want %v and nobody", c.signal, c.disks, w.reclaimed,
					w.ended, c.want)
			}
		})
	}
	run(t, eviction.MemoryAvailable, func(w *testNode) {
		w.free = gi
		w.add("web", 90*gi)
		w.begin()
		if len(w.reclaimed) != 0 || len(w.ended) != 1 {
			t.Errorf("memory: got %v reclaimed and %v ended, want nothing and web", w.reclaimed, w.ended)
		}
	})
}

func TestOnlyTheVictimsContainersAreRead(t *testing.T) {
	run(t, eviction.MemoryAvailable, func(w *testNode) {
		var read []string
		w.d.Containers = func(p *v1.Pod) []eviction.ContainerUse {
			read = append(read, p.Name)
			n := w.use[p.UID] - 1
			return []eviction.ContainerUse{{Name: "app", Memory: &n}}
		}
		w.free = gi
		w.add("small", 2*gi)
		w.add("big", 50*gi)
		w.begin()
		const want = "Container app was using 53687091199, request is 0, has larger consumption of memory. "
		end := w.ends["big"]
		if !slices.Equal(read, []string{"big"}) || !strings.HasSuffix(end.Message, want) || end.Victim != end.Message {
			t.Errorf("got containers of %v read, message %q, want big's, and it to end with %q", read, end.Message,
				want)
		}
	})
	run(t, eviction.NodeFsAvailable, func(w *testNode) {
		w.d.Containers = func(p *v1.Pod) []eviction.ContainerUse {
			t.Errorf("got the memory of %s's containers read, want none", p.Name)
			return nil
		}
		w.free = gi
		w.add("web", 9*gi)
		w.begin()
		if len(w.ended) != 1 {
			t.Errorf("got %v ended, want web", w.ended)
		}
	})
}

// row: EVC-31
func TestConditionsAreMadeKnown(t *testing.T) {
	run(t, eviction.MemoryAvailable, func(w *testNode) {
		w.begin()
		if c := w.m.Conditions(); len(c) != 0 || w.changed != 0 {
			t.Fatalf("with enough memory: got %v, %d changes, want none", c, w.changed)
		}
		w.free = 9 * gi
		w.pass(10 * time.Second)
		if c := w.m.Conditions(); !slices.Equal(c, []v1.NodeConditionType{v1.NodeMemoryPressure}) || w.changed != 1 {
			t.Errorf("short: got %v, %d changes, want MemoryPressure, one change", c, w.changed)
		}
		w.free = 50 * gi
		w.pass(4 * time.Minute)
		if c := w.m.Conditions(); len(c) != 1 {
			t.Errorf("within the transition period: got %v, want MemoryPressure", c)
		}
		w.pass(time.Minute + 10*time.Second)
		if c := w.m.Conditions(); len(c) != 0 || w.changed != 2 {
			t.Errorf("after it: got %v, %d changes, want none, two changes", c, w.changed)
		}
	})
}

// row: EVC-36
func TestAWedgedRuntimeIsNotFedAllPods(t *testing.T) {
	for _, stuck := range []bool{true, false} { // Pods that do not end; Pods whose end frees nothing
		run(t, eviction.MemoryAvailable, func(w *testNode) {
			w.free, w.stuck, w.keeps = gi, stuck, true
			for i := range 20 {
				w.add(fmt.Sprint("p", i), gi)
			}
			w.begin()
			w.pass(4 * time.Minute)
			if len(w.ended) != 3 {
				t.Errorf("stuck %t: got %d Pods asked to end, want 3", stuck, len(w.ended))
			}
			if len(slices.Compact(slices.Sorted(slices.Values(w.ended)))) != len(w.ended) {
				t.Errorf("stuck %t: got %v, want each asked once", stuck, w.ended)
			}
			named := slices.ContainsFunc(w.eventsSeen(), func(e string) bool {
				return strings.HasPrefix(e,
					"Warning EvictionsFruitless 3 Pods in a row were evicted for memory.available")
			})
			shown := slices.Contains(w.fruitless, "memory.available 3")
			fact := slices.ContainsFunc(w.facts, func(f journal.Fact) bool {
				x, ok := f.(journal.EvictionsFruitless)
				return ok && x.Evictions == 3
			})
			if !named || !shown || !fact {
				t.Errorf("stuck %t: event %t, metric %t, fact %t, want all", stuck, named, shown, fact)
			}
		})
	}
}

func TestPodsOverTheirOwnLimitsGoFirst(t *testing.T) {
	run(t, eviction.MemoryAvailable, func(w *testNode) {
		checks := 0
		w.d.Notices = w.kernel
		w.d.OverLimits = func(context.Context) bool { checks++; return checks == 1 }
		w.free = gi
		w.add("web", 50*gi)
		w.begin()
		if len(w.ended) != 0 || checks != 1 {
			t.Errorf("a Pod over its limits: got %v ended, want nobody else in this pass", w.ended)
		}
		notices := 0
		for len(w.ended) == 0 && notices < 5 {
			w.kernel <- "memory pressure"
			w.pass(100 * time.Millisecond)
			notices++
		}
		if len(w.ended) != 1 || checks != 1 {
			t.Errorf("a look that the kernel asks for: got %v ended and %d checks of limits, want web, no check",
				w.ended,
				checks)
		}
		w.pass(10 * time.Second)
		if checks != 2 {
			t.Errorf("next pass: got %d checks, want 2", checks)
		}
	})
}

// Disks that are slow to measure hold up neither the kernel's notice of memory nor a hard
// threshold.
//
// row: EVC-09
func TestMeasuringDisksHoldsUpNoEvictionForMemory(t *testing.T) {
	for _, notice := range []bool{true, false} {
		run(t, eviction.MemoryAvailable, func(w *testNode) {
			measured := make(chan bool)
			w.d.Notices = w.kernel
			w.d.OverLimits = func(context.Context) bool { return <-measured }
			w.add("web", 50*gi)
			if !notice {
				w.free = gi
			}
			begun := time.Now()
			w.begin()
			if notice {
				w.pass(time.Second)
				begun, w.free = time.Now(), gi
				w.kernel <- "memory pressure"
			}
			w.pass(100 * time.Millisecond)
			if len(w.ends) != 1 || w.ends["web"].RequestedAt.Sub(begun) > 50*time.Millisecond {
				t.Errorf("notice %t: got %v asked to end %s after the node ran short, want web within 50ms", notice,
					w.ends, w.ends["web"].RequestedAt.Sub(begun))
			}
			close(measured)
		})
	}
}

// row: EVC-09
func TestOnlyAHardThresholdHasSignalsPastTheRuntime(t *testing.T) {
	for _, hard := range []bool{true, false} {
		run(t, eviction.MemoryAvailable, func(w *testNode) {
			if !hard {
				w.d.Config.Thresholds[0].Grace = time.Second
			}
			w.free = gi
			w.add("web", 50*gi)
			w.begin()
			w.pass(15 * time.Second)
			if end, asked := w.ends["web"]; !asked || end.Immediate != hard {
				t.Errorf("hard %t: got %+v, %t, want web asked to end, Immediate %t", hard, end, asked, hard)
			}
		})
	}
}

func TestFailedObservationIsRepeated(t *testing.T) {
	run(t, eviction.MemoryAvailable, func(w *testNode) {
		w.unreadable, w.free = errors.New("no cgroups"), gi
		w.add("web", 50*gi)
		w.begin()
		w.pass(20 * time.Second)
		if len(w.ended) != 0 || len(w.observedAt) != 3 {
			t.Errorf("unreadable: got %v ended after %d looks, want nobody after 3", w.ended, len(w.observedAt))
		}
		w.unreadable = nil
		w.pass(10 * time.Second)
		if len(w.ended) != 1 {
			t.Errorf("readable: got %v ended, want web", w.ended)
		}
	})
}

func TestWithoutThresholdsNothingIsObserved(t *testing.T) {
	run(t, eviction.MemoryAvailable, func(w *testNode) {
		w.d.Config.Thresholds = nil
		w.begin()
		w.pass(time.Minute)
		if len(w.observedAt) != 0 {
			t.Errorf("got %d looks, want none", len(w.observedAt))
		}
	})
}
