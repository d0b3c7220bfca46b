package allocation_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/admit"
	"github.com/gantry-project/gantry/internal/kubelet/allocation"
	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/podactions"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/test/wrappers"
)

// testNode is all that a Manager works with: a node whose room the test sets.
type testNode struct {
	room     bool
	saved    map[types.UID]podactions.AllocationRecord
	recorded []string
	messages []string // of events
}

func (n *testNode) Load(uid types.UID) (podactions.AllocationRecord, bool, error) {
	r, ok := n.saved[uid]
	return r, ok, nil
}

func (n *testNode) Save(uid types.UID, r podactions.AllocationRecord) error {
	n.saved[uid] = r
	return nil
}

func (n *testNode) Event(_ runtime.Object, _, reason, message string) {
	n.recorded = append(n.recorded, "event "+reason)
	n.messages = append(n.messages, message)
}
func (n *testNode) Put(_ journal.Ref, f journal.Fact) { n.recorded = append(n.recorded, f.Line()) }
func (n *testNode) Wake()                             { n.recorded = append(n.recorded, "wake") }
func (n *testNode) PublishAllocation(a pod.Allocation) {
	cpu := a.Containers["c"].Requests[v1.ResourceCPU]
	n.recorded = append(n.recorded, "publish "+cpu.String())
}

func (n *testNode) resize(admit.Resize, []*v1.Pod) *reason.Refusal {
	if n.room {
		return nil
	}
	return &reason.Refusal{Code: reason.ResizeDeferred, Detail: "full",
		Err: &reason.Refusal{Code: "OutOfcpu"}}
}

func (n *testNode) take(t *testing.T, when string, want ...string) {
	t.Helper()
	if !slices.Equal(n.recorded, want) {
		t.Errorf("%s: got %q, want %q", when, n.recorded, want)
	}
	n.recorded = nil
}

func asking(cpu string) *v1.Pod {
	return wrappers.MakePod().Name("p").UID("u").Containers(v1.Container{
		Name:      "c",
		Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}},
	}).Obj()
}

// A resize is not evaluated before all Pods are known, waits for room, is granted when there is
// some, and is over when the runtime has it.
func TestAResizeWaitsForRoom(t *testing.T) {
	n := &testNode{saved: map[types.UID]podactions.AllocationRecord{}}
	m := allocation.New(allocation.Deps{Resize: n.resize, OtherPods: func(types.UID) []*v1.Pod { return nil }, Store: n,
		Events: events.New(n), Journal: n})
	z := m.NewPod(journal.Ref{Name: "p", UID: "u"}, "u", n)
	small, large := asking("1"), asking("2")
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	sync := func() bool {
		return z.Sync(context.Background(), large, podplan.In{Pod: z.ApplyTo(large), Now: now, Applied: z.Applied()})
	}
	z.Admitted(context.Background(), small, false)
	if sync() {
		t.Error("granted before all Pods of the node were known")
	}
	n.take(t, "before the sources are ready")
	m.SourcesReady()
	n.take(t, "the sources are ready", "wake")
	if sync() {
		t.Error("granted without room")
	}
	n.take(t, "no room", "waits for its new size (Deferred): full",
		"event ResizeDeferred")
	if got, want := n.messages[0], "Pod resize OutOfcpu: {"; !strings.HasPrefix(got, want) {
		t.Errorf("event: got %q, want it to begin with %q", got, want)
	}
	m.RetryPendingResizes()
	n.take(t, "still no room")
	n.room = true
	m.RetryPendingResizes()
	n.take(t, "room", "publish 2", "wake")
	if !sync() {
		t.Error("not granted with room")
	}
	n.take(t, "granted", "waits for its new size to be in force", "event ResizeStarted")
	if _, ok := n.saved["u"]; !ok {
		t.Error("the record is not in the store")
	}
	in := podplan.In{Pod: z.ApplyTo(large), Now: now, Applied: z.Applied(), Observed: podplan.Observed{
		Sandboxes:  []podplan.Sandbox{{ID: "s", Ready: true}},
		Containers: []podplan.Container{{ID: "c", Name: "c", Sandbox: "s", State: podplan.Running}}}}
	if z.Progress(in) {
		t.Error("completed before it was actuated")
	}
	z.Actuated(in.Pod, []podplan.Action{podplan.Resize{Containers: []podplan.ResizedContainer{{ID: "c", Name: "c"}},
		FinalizePodCgroup: true}})
	in.Applied = z.Applied()
	if got := z.Progress(in); !got {
		t.Errorf("completed: got %t, want true (%s)", got, fmt.Sprint(n.recorded))
	}
	n.take(t, "actuated", "event ResizeCompleted")
}
