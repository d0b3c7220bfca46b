package kubelet_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet"
	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/kubelet/eviction/manager"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// pressure is a node whose memory a test sets; the threshold is 10 bytes of 100.
type pressure struct {
	*rig
	mu      sync.Mutex
	free    int64
	signal  eviction.Signal
	manager *manager.Manager
	killed  time.Time // when the last Pod was asked to end
}

func (p *pressure) set(free int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = free
}

// underPressure runs a test on a node with the eviction manager, in virtual time.
func underPressure(t *testing.T, signal eviction.Signal, test func(p *pressure)) {
	t.Helper()
	withThresholds(t, signal, eviction.Settings{Hard: map[string]string{string(signal): "10%"}}, nil, test)
}

// withThresholds is underPressure with other thresholds, and with signals past the runtime.
func withThresholds(t *testing.T, signal eviction.Signal, settings eviction.Settings, past *pastRuntime,
	test func(p *pressure)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &pressure{rig: newRig(t, t.TempDir()), free: 50, signal: signal}
		p.with = func(o *kubelet.Options) {
			o.Dependencies.Pressure = func() []v1.NodeConditionType { return p.manager.Conditions() }
			if past != nil {
				past.Fake, o.Dependencies.Processes = p.fake, past
			}
		}
		list, errs := eviction.Thresholds(settings)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		p.manager = manager.New(manager.Deps{
			Config: eviction.Config{Thresholds: list, PressureTransition: time.Minute,
				MaxPodGrace: time.Minute},
			Node:    &v1.ObjectReference{Kind: "Node", Name: "n1"},
			Observe: p.observe, Measure: p.measure, Pods: func() []*v1.Pod { return p.k.ActivePods() },
			KillPod: p.killPod, CleanedUp: func(uid types.UID) bool { return p.k.PodCleanedUp(uid) },
			Reclaim: map[eviction.Reclaim]func(context.Context) error{
				eviction.DeadContainers: func(ctx context.Context) error {
					defer p.set(50) // they held enough
					return p.k.DeleteAllUnusedContainers(ctx)
				},
				eviction.UnusedImages: func(ctx context.Context) error { return p.k.DeleteUnusedImages(ctx) },
			},
			Events: p.events, Journal: p.facts,
		})
		p.start()
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); p.manager.Run(ctx) }()
		defer p.fake.Close()
		defer func() { cancel(); <-done; p.stop() }()
		test(p)
	})
}

// killPod has there be enough of everything once the victim has ended.
func (p *pressure) killPod(uid types.UID, end podplan.Termination) (<-chan struct{}, bool) {
	p.killed = time.Now()
	terminated, ok := p.k.KillPod(uid, end)
	go func() {
		<-terminated
		p.set(50)
	}()
	return terminated, ok
}

// unyielding ends with an error when it is asked to end.
const unyielding = "while true; do sleep 1; done"

func (p *pressure) observe(context.Context) (eviction.Figures, eviction.Disks, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := &eviction.Observation{At: time.Now(), Available: p.free, Capacity: 100}
	if p.signal == eviction.MemoryAvailable {
		return eviction.Figures{Memory: o}, eviction.Disks{}, nil
	}
	return eviction.Figures{NodeFs: eviction.Filesystem{Bytes: o}}, eviction.Disks{}, nil
}

// measure has each Pod take as many bytes as its name is long.
func (p *pressure) measure(_ context.Context, _ v1.ResourceName, pods []*v1.Pod) (map[types.UID]eviction.PodUse,
	error) {
	out := map[types.UID]eviction.PodUse{}
	for _, x := range pods {
		n := int64(len(x.Name))
		out[x.UID] = eviction.PodUse{Memory: &n}
	}
	return out, nil
}

// row: EVC-26
// row: EVC-29
// row: EVC-30
func TestTheVictimFailsAndStays(t *testing.T) {
	limits := map[string]string{string(eviction.MemoryAvailable): "10%"}
	for kind, c := range map[string]struct {
		settings eviction.Settings
		within   time.Duration
	}{
		"hard": {eviction.Settings{Hard: limits}, 15 * time.Second},
		"soft": {eviction.Settings{Soft: limits,
			SoftGracePeriod: map[string]string{string(eviction.MemoryAvailable): "20s"}}, time.Minute},
	} {
		t.Run(kind, func(t *testing.T) { theVictimFailsAndStays(t, c.settings, c.within) })
	}
}

// theVictimFailsAndStays: within so long the longest of two Pods has failed.
func theVictimFailsAndStays(t *testing.T, settings eviction.Settings, within time.Duration) {
	withThresholds(t, eviction.MemoryAvailable, settings, nil, func(p *pressure) {
		p.create(pod("web", scriptContainer("app", runs), scriptContainer("side", runs)))
		p.create(pod("longest", scriptContainer("app", unyielding), scriptContainer("side", runs)))
		p.advance(10 * time.Second)
		p.phase("longest", v1.PodRunning)
		p.set(9)
		p.advance(within)
		s := p.phase("longest", v1.PodFailed).Status
		const want = "The node was low on resource: memory. Threshold quantity: 10, available: 9. "
		if s.Reason != "Evicted" || s.Message != want {
			t.Errorf("got reason %q, message %q, want Evicted, %q", s.Reason, s.Message, want)
		}
		for _, c := range s.ContainerStatuses {
			if c.State.Terminated == nil {
				t.Errorf("container %s: got %+v, want it ended", c.Name, c.State)
			}
		}
		target := v1.PodCondition{}
		for _, c := range s.Conditions {
			if c.Type == v1.DisruptionTarget {
				target = c
			}
		}
		if target.Status != v1.ConditionTrue || target.Reason != "TerminationByKubelet" || target.Message != want {
			t.Errorf("DisruptionTarget: got %+v, want True, TerminationByKubelet and the message", target)
		}
		p.phase("web", v1.PodRunning)
		if n := p.events.count("Warning Evicted: " + want); n != 1 {
			t.Errorf("got %d events Evicted, want one", n)
		}
		p.advance(time.Hour)
		p.phase("longest", v1.PodFailed)
	})
}

// row: EVC-33
func TestPodsAreRefusedUnderPressure(t *testing.T) {
	underPressure(t, eviction.MemoryAvailable, func(p *pressure) {
		p.set(9)
		p.advance(10 * time.Second)
		p.create(pod("late", scriptContainer("app", runs)))
		s := p.phase("late", v1.PodFailed).Status
		if want := "Pod was rejected: The node had condition: [MemoryPressure]. "; s.Reason != "Evicted" ||
			s.Message != want {
			t.Errorf("got reason %q, message %q, want Evicted, %q", s.Reason, s.Message, want)
		}
		p.set(50)
		p.advance(90 * time.Second)
		p.create(pod("later", scriptContainer("app", runs)))
		p.advance(5 * time.Second)
		p.phase("later", v1.PodRunning)
	})
}

// row: EVC-27
func TestAnOOMKillIsNoEviction(t *testing.T) {
	underPressure(t, eviction.MemoryAvailable, func(p *pressure) {
		p.create(pod("web", scriptContainer("app", "sleep 5; oom"), scriptContainer("other", runs)))
		p.advance(8 * time.Second)
		s := p.phase("web", v1.PodRunning).Status
		app, other := s.ContainerStatuses[0], s.ContainerStatuses[1]
		last := app.LastTerminationState.Terminated
		if last == nil || last.ExitCode != 137 || last.Reason != "OOMKilled" || app.RestartCount != 1 ||
			other.RestartCount != 0 {
			t.Errorf("got %+v and %+v, want app ended with 137 OOMKilled and restarted once, the other left alone", app,
				other)
		}
		if n := p.events.count("Evicted"); n != 0 {
			t.Errorf("got %d events Evicted, want none", n)
		}
	})
}

// What Pods that have ended left in the runtime goes before a Pod has to; their status stays.
//
// row: EVC-17
func TestDeadContainersAreReclaimed(t *testing.T) {
	underPressure(t, eviction.NodeFsAvailable, func(p *pressure) {
		done := pod("done", scriptContainer("app", "exit 3"))
		done.Spec.RestartPolicy = v1.RestartPolicyNever
		p.create(done)
		p.create(pod("web", scriptContainer("app", runs)))
		p.advance(8 * time.Second)
		p.phase("done", v1.PodFailed)
		p.set(9)
		p.advance(2 * time.Second)
		left, err := p.cri.Runtime().ListContainers(context.Background(), nil)
		if err != nil || len(left) != 1 || !strings.Contains(left[0].Labels["io.kubernetes.pod.name"], "web") {
			t.Errorf("got %v (%v) in the runtime, want the container of web alone", left, err)
		}
		p.advance(2 * time.Minute)
		p.phase("web", v1.PodRunning)
		if s := p.phase("done", v1.PodFailed).Status; s.ContainerStatuses[0].State.Terminated == nil ||
			s.ContainerStatuses[0].State.Terminated.ExitCode != 3 {
			t.Errorf("got %+v, want exit code 3 to stay", s.ContainerStatuses[0])
		}
	})
}

// What containers left and cannot be removed is told in an event of the node: once as long as the
// cause of logs that stay is the same.
func TestContainersThatStayAreReported(t *testing.T) {
	underPressure(t, eviction.NodeFsAvailable, func(p *pressure) {
		done := pod("done", scriptContainer("app", "exit 3"))
		done.Spec.RestartPolicy = v1.RestartPolicyNever
		p.create(done)
		p.advance(8 * time.Second)
		p.phase("done", v1.PodFailed)
		if n := p.events.count("ContainerGCFailed"); n != 0 {
			t.Errorf("got %d events ContainerGCFailed before anything failed, want 0", n)
		}
		if err := p.fake.Fault("RemoveContainer", "error(the layer is busy)"); err != nil {
			t.Fatal(err)
		}
		p.set(9)
		p.advance(2 * time.Second)
		if !strings.Contains(p.events.text(), "ContainerGCFailed: ") ||
			!strings.Contains(p.events.text(), "the layer is busy") {
			t.Errorf("got events\n%s\nwant ContainerGCFailed with the cause", p.events.text())
		}
	})
}
