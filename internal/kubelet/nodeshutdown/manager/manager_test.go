package manager_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/nodeshutdown"
	"github.com/gantry-project/gantry/internal/kubelet/nodeshutdown/manager"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/linux/logind"
	"github.com/gantry-project/gantry/internal/linux/logind/logindfake"
	"github.com/gantry-project/gantry/test/wrappers"
)

// testNode is a node with Pods that end as the test says, and a bus.
type testNode struct {
	t    *testing.T
	bus  *logindfake.Service
	k    *manager.Manager
	pods []*v1.Pod
	stay map[types.UID]bool // Pods that never end

	mu           sync.Mutex
	lines        []string
	recordedMore chan struct{}
}

func begin(t *testing.T, steps []nodeshutdown.Step, pods ...*v1.Pod) *testNode {
	t.Helper()
	dir := t.TempDir()
	bus, err := logindfake.Start(dir)
	if err != nil {
		t.Fatal(err)
	}
	bus.OnLoad = func(s *logindfake.Service) { s.SetDelay(60_000_000) }
	m := &testNode{t: t, bus: bus, pods: pods, stay: map[types.UID]bool{}, recordedMore: make(chan struct{}, 100)}
	m.k = manager.New(manager.Deps{
		Bus: func(ctx context.Context) (manager.Session, error) {
			return logind.Dial(ctx, logind.Options{Address: bus.Address, ConfDir: dir})
		},
		Steps: steps, Pods: func() []*v1.Pod { return m.pods },
		KillPod: func(uid types.UID, e podplan.Termination) (<-chan struct{}, bool) {
			m.record(fmt.Sprintf("end %s in %s: %s, %s", uid, e.Grace, e.Reason, e.Message))
			rest := make(chan struct{})
			if !m.stay[uid] {
				close(rest)
			}
			return rest, true
		},
		Event:   func(reason, message string) { m.record(reason + ": " + message) },
		Changed: func() { m.record(fmt.Sprintf("healthy: %v", m.k.Healthy())) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); m.k.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done; bus.Close() })
	return m
}

func (m *testNode) record(s string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = append(m.lines, s)
	m.recordedMore <- struct{}{}
}

func (m *testNode) recorded() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.lines)
}

// locks waits until that many locks are held and were taken.
func (m *testNode) locks(held, taken int) {
	m.t.Helper()
	late := time.After(time.Minute)
	for {
		h, n, changed := m.bus.Locks()
		if h == held && n == taken {
			return
		}
		select {
		case <-changed:
		case <-late:
			m.t.Fatalf("%d locks held of %d taken, want %d of %d", h, n, held, taken)
		}
	}
}

func testPod(uid string, priority int32) *v1.Pod {
	return wrappers.MakePod().Name(uid).UID(uid).Priority(priority).TerminationGracePeriodSeconds(30).Obj()
}

func TestPodsEndInOrderBeforeTheMachineDoes(t *testing.T) {
	t.Parallel()
	m := begin(t, []nodeshutdown.Step{{Priority: 0, Period: 20 * time.Second},
		{Priority: 2000000000, Period: 10 * time.Second}}, testPod("critical", 2000001000), testPod("plain", 0))
	m.locks(1, 1)
	if refusal, err := m.k.Admit(), m.k.Healthy(); refusal != nil || err != nil {
		t.Errorf("refuses before a shutdown: got %v and %v, want neither", refusal, err)
	}
	if err := m.bus.EmitPrepareForShutdown(true); err != nil {
		t.Fatal(err)
	}
	m.locks(0, 1)
	text := "Terminated, Pod was terminated in response to imminent node shutdown."
	want := []string{"Shutdown: Shutdown manager detected shutdown event", "healthy: node is shutting down",
		"end plain in 20s: " + text, "end critical in 10s: " + text}
	if got := m.recorded(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %v", got, want)
	}
	if no := m.k.Admit(); no == nil || no.Code != "NodeShutdown" ||
		no.Detail != "Pod was rejected as the node is shutting down." {
		t.Errorf(`got %v, want Code NodeShutdown and Detail "Pod was rejected as the node is shutting down."`, no)
	}
	if err := m.bus.EmitPrepareForShutdown(false); err != nil {
		t.Fatal(err)
	}
	m.locks(1, 2)
	if m.k.ShuttingDown() {
		t.Error("still shutting down")
	}
}

func TestAGroupWaitsNoLongerThanItsPeriod(t *testing.T) {
	t.Parallel()
	m := begin(t, []nodeshutdown.Step{{Priority: 0, Period: 50 * time.Millisecond}, {Priority: 5, Period: time.Second}},
		testPod("stuck", 0), testPod("later", 5))
	m.stay["stuck"] = true
	m.locks(1, 1)
	if err := m.bus.EmitPrepareForShutdown(true); err != nil {
		t.Fatal(err)
	}
	m.locks(0, 1)
	if got := m.recorded(); len(got) != 4 {
		t.Errorf("got %q, want 4 in got", got)
	}
}

func TestShutdownThatBeganBeforeTheStart(t *testing.T) {
	t.Parallel()
	m := begin(t, []nodeshutdown.Step{{Period: time.Second}}, testPod("p", 0))
	m.locks(1, 1)
	m.bus.DropConnections()
	m.locks(0, 1)
	if err := m.bus.EmitPrepareForShutdown(true); err != nil { // nobody is connected
		t.Fatal(err)
	}
	m.locks(0, 2)
	if got := m.recorded(); len(got) != 3 || !m.k.ShuttingDown() {
		t.Errorf("got %q, want 3 in got and m.k.ShuttingDown() true", got)
	}
}

// Without a period to wait for, Run returns at once, and the node never shuts down.
func TestRunReturnsWithoutAShutdownPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := manager.New(manager.Deps{})
		returned := false
		go func() { k.Run(t.Context()); returned = true }()
		synctest.Wait()
		if !returned || k.ShuttingDown() {
			t.Errorf("Run has returned: %t, shutting down: %t; want true and false", returned, k.ShuttingDown())
		}
	})
}
