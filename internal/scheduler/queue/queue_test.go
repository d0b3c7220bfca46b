package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/prioritysort"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/test/wrappers"
)

var (
	t0      = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	nodeAdd = framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add}
	podGone = framework.ClusterEvent{Resource: framework.AssignedPod, ActionType: framework.Delete}
)

func pod(name string, priority int32, change ...func(*v1.Pod)) *v1.Pod {
	return wrappers.MakePod().Namespace("ns").Name(name).UID(name).SchedulerName("s").Priority(priority).Obj(change...)
}

// newQueue has two plugins: "fit" wakes for new nodes of a name the Pod starts with and for Pods
// that go; "wait" for Pods that go.
func newQueue() *queue.Queue {
	fit := func(_ logr.Logger, p *v1.Pod, _, obj any) (framework.QueueingHint, error) {
		if n, ok := obj.(*v1.Node); ok && !strings.HasPrefix(p.Name, n.Name) {
			return framework.QueueSkip, nil
		}
		return framework.Queue, nil
	}
	return queue.New(queue.Options{
		Less: prioritysort.New().Less, Log: logr.Discard(),
		PreEnqueue: func(p *v1.Pod) *framework.Status {
			if len(p.Spec.SchedulingGates) > 0 {
				return framework.NewStatus(framework.UnschedulableAndUnresolvable, "gated").WithPlugin("gate")
			}
			return nil
		},
		QueueingHints: map[string][]queue.QueueingHint{"s": {
			{Plugin: "fit", Event: nodeAdd, Fn: fit},
			{Plugin: "fit", Event: framework.ClusterEvent{Resource: framework.Pod, ActionType: framework.Delete}},
			{Plugin: "wait", Event: podGone},
			{Plugin: "gate", Event: framework.ClusterEvent{Resource: framework.TargetPod,
				ActionType: framework.UpdatePodSchedulingGatesEliminated}},
			{Plugin: "label", Event: framework.ClusterEvent{Resource: framework.TargetPod,
				ActionType: framework.UpdatePodLabel}},
		}},
	})
}

func at(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }

func refusedBy(plugins ...string) queue.Failure {
	return queue.Failure{UnschedulablePlugins: sets.New(plugins...), PendingPlugins: sets.Set[string]{}}
}

func moveTexts(moves []queue.Move) string {
	var out []string
	for _, m := range moves {
		s := fmt.Sprintf("%s to %s (%s", m.Entry.Pod().Name, m.Stage, m.Cause)
		if m.Plugin != "" {
			s += " by " + m.Plugin
		}
		if m.Ignored {
			s = strings.Replace(s, " to ", " stays ", 1)
		}
		out = append(out, s+")")
	}
	return strings.Join(out, ", ")
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func name(e *queue.Entry) string {
	if e == nil {
		return "nobody"
	}
	return e.Pod().Name
}

func noPriority(p *v1.Pod) { p.Spec.Priority = nil }

// row: SCH-02
func TestOrderIsPriorityThenArrival(t *testing.T) {
	q := newQueue()
	q.Add(pod("old-low", 1), at(0))
	q.Add(pod("old-high", 5), at(1))
	q.Add(pod("new-high", 5), at(2))
	var got []string
	for e := q.Pop(at(3)); e != nil; e = q.Pop(at(3)) {
		got = append(got, e.Pod().Name)
	}
	expect(t, "order", strings.Join(got, " "), "old-high new-high old-low")
	got = nil
	for i, p := range []*v1.Pod{pod("below", -5), pod("b", 0, noPriority), pod("critical", 2_000_001_000), pod("a", 0),
		pod("c", 0, noPriority), pod("above", 1)} {
		q.Add(p, at(10+float64(i)))
	}
	for e := q.Pop(at(20)); e != nil; e = q.Pop(at(20)) {
		got = append(got, e.Pod().Name)
	}
	expect(t, "order of any priorities", strings.Join(got, " "), "critical above b a c below")
}

// row: SCH-30
func TestOnlyHelpfulEventsWake(t *testing.T) {
	q := newQueue()
	q.Add(pod("web", 0), at(0))
	expect(t, "returned", moveTexts(q.AddUnschedulableIfNotPresent(q.Pop(at(0)), refusedBy("fit"), at(0))),
		"web to unschedulable (ScheduleAttemptFailure)")
	expect(t, "pop", name(q.Pop(at(1))), "nobody")
	other := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "db"}}
	expect(t, "unhelpful node",
		moveTexts(q.MoveAllToActiveOrBackoffQueue(queue.Event{ClusterEvent: nodeAdd, New: other}, at(1))),
		"web stays unschedulable (NodeAdd by fit)")
	expect(t, "told once", moveTexts(q.MoveAllToActiveOrBackoffQueue(queue.Event{ClusterEvent: nodeAdd, New: other},
		at(1))), "")
	mine := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "we"}}
	expect(t, "helpful node",
		moveTexts(q.MoveAllToActiveOrBackoffQueue(queue.Event{ClusterEvent: nodeAdd, New: mine}, at(2))),
		"web to active (NodeAdd by fit)")
	e := q.Pop(at(2))
	expect(t, "refused by another plugin", moveTexts(q.AddUnschedulableIfNotPresent(e, refusedBy("label"), at(2))),
		"web to unschedulable (ScheduleAttemptFailure)")
	expect(t, "its events do not help",
		moveTexts(q.MoveAllToActiveOrBackoffQueue(queue.Event{ClusterEvent: nodeAdd, New: mine}, at(9))), "")
	expect(t, "nor those that a plugin hears of which saw no harm",
		moveTexts(q.MoveAllToActiveOrBackoffQueue(queue.Event{ClusterEvent: podGone}, at(9))), "")
}

// row: SCH-09
func TestBackoffDoublesToTenSeconds(t *testing.T) {
	q := newQueue()
	q.Add(pod("web", 0), at(0))
	now := at(0)
	var got []string
	for range 6 {
		e := q.Pop(now)
		q.AddUnschedulableIfNotPresent(e, refusedBy("fit"), now)
		got = append(got, e.BackoffExpiration.Sub(now).String())
		q.MoveAllToActiveOrBackoffQueue(queue.Event{ClusterEvent: podGone}, now)
		expect(t, "place", string(e.Stage), "backoff")
		if next := q.NextFlush(); !next.Equal(e.BackoffExpiration) {
			t.Errorf("wakes at %v, want the end of the back-off %v", next, e.BackoffExpiration)
		}
		now = e.BackoffExpiration
		expect(t, "over", moveTexts(q.Flush(now)), "web to active (BackoffComplete)")
	}
	expect(t, "back-offs", strings.Join(got, " "), "1s 2s 4s 8s 10s 10s")
	for range 70 { // as many doublings as no number of nanoseconds holds
		e := q.Pop(now)
		q.AddUnschedulableIfNotPresent(e, refusedBy("fit"), now)
		q.MoveAllToActiveOrBackoffQueue(queue.Event{ClusterEvent: podGone}, now)
		expect(t, "in the end", e.BackoffExpiration.Sub(now).String(), "10s")
		now = e.BackoffExpiration
		q.Flush(now)
	}
}

func TestIdleQueueTakesFromBackoffButNotAfterErrors(t *testing.T) {
	q := newQueue()
	q.Add(pod("web", 0), at(0))
	q.AddUnschedulableIfNotPresent(q.Pop(at(0)), refusedBy("fit"), at(0))
	q.MoveAllToActiveOrBackoffQueue(queue.Event{ClusterEvent: podGone}, at(0))
	e := q.Pop(at(0))
	expect(t, "nobody else is there", name(e), "web")
	expect(t, "an error", moveTexts(q.AddUnschedulableIfNotPresent(e, queue.Failure{}, at(0))),
		"web to backoff (ScheduleAttemptFailure)")
	expect(t, "waits its time", name(q.Pop(at(0.9))), "nobody")
	q.Flush(at(1))
	expect(t, "then comes", name(q.Pop(at(1))), "web")
}

// row: SCH-30
func TestEventsDuringFlightAreNotMissed(t *testing.T) {
	q := newQueue()
	q.Add(pod("web", 0), at(0))
	q.Add(pod("late", 0), at(1))
	e := q.Pop(at(1))
	q.MoveAllToActiveOrBackoffQueue(queue.Event{ClusterEvent: podGone}, at(1))
	l := q.Pop(at(1)) // takes off after the event
	expect(t, "woken at once, after its back-off",
		moveTexts(q.AddUnschedulableIfNotPresent(e, refusedBy("fit"), at(2))),
		"web to backoff (AssignedPodDelete by fit)")
	expect(t, "saw no event", moveTexts(q.AddUnschedulableIfNotPresent(l, refusedBy("fit"), at(2))),
		"late to unschedulable (ScheduleAttemptFailure)")
	q.Flush(at(4))
	e = q.Pop(at(4))
	expect(t, "a new flight begins without old events",
		moveTexts(q.AddUnschedulableIfNotPresent(e, refusedBy("fit"), at(4))),
		"web to unschedulable (ScheduleAttemptFailure)")
	q.Delete("late")
	expect(t, "in flight", fmt.Sprint(q.StageCounts()), "{0 0 1 0 0}")
	expect(t, "events kept for nobody", fmt.Sprint(q.InFlightEvents()), "map[]")
	q.Add(pod("api", 0), at(5))
	e = q.Pop(at(5))
	q.MoveAllToActiveOrBackoffQueue(queue.Event{ClusterEvent: podGone}, at(5))
	expect(t, "what helps others' refusals does not help",
		moveTexts(q.AddUnschedulableIfNotPresent(e, refusedBy("label"), at(5))),
		"api to unschedulable (ScheduleAttemptFailure)")
}

// The node that a Pod gives back when it is refused there helps others, not the Pod.
//
// row: SCH-08, SCH-30
func TestRoomThatAPodGivesBackHelpsOthers(t *testing.T) {
	for name, c := range map[string]struct {
		by   string
		f    queue.Failure
		want string
	}{
		"its own room":          {"web", refusedBy("fit"), "web to unschedulable (ScheduleAttemptFailure)"},
		"another's room":        {"db", refusedBy("fit"), "web to backoff (AssignedPodDelete by fit)"},
		"its own, and an error": {"web", queue.Failure{}, "web to backoff (ScheduleAttemptFailure)"},
	} {
		q := newQueue()
		q.Add(pod("web", 0), at(0))
		e := q.Pop(at(0))
		q.MoveAllToActiveOrBackoffQueue(queue.Event{ClusterEvent: podGone, Old: pod(c.by, 0)}, at(1))
		expect(t, name, moveTexts(q.AddUnschedulableIfNotPresent(e, c.f, at(1))), c.want)
	}
}

func TestPendingPodsSkipTheirBackoff(t *testing.T) {
	q := newQueue()
	q.Add(pod("web", 0), at(0))
	q.AddUnschedulableIfNotPresent(q.Pop(at(0)), queue.Failure{UnschedulablePlugins: sets.New("fit"),
		PendingPlugins: sets.New("wait")}, at(0))
	expect(t, "at once", moveTexts(q.MoveAllToActiveOrBackoffQueue(queue.Event{ClusterEvent: podGone}, at(0))),
		"web to active (AssignedPodDelete by wait)")
}

// row: SCH-33
func TestSchedulingGatesHoldPodsBack(t *testing.T) {
	q := newQueue()
	gated := pod("web", 0, func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}} })
	expect(t, "kept out", moveTexts(q.Add(gated, at(0))), "web to gated (PodAdd by gate)")
	expect(t, "deaf to other events",
		moveTexts(q.MoveAllToActiveOrBackoffQueue(queue.Event{ClusterEvent: podGone}, at(1))), "")
	labelled := gated.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	expect(t, "still gated", moveTexts(q.Update(gated, labelled, at(2))), "")
	open := labelled.DeepCopy()
	open.Spec.SchedulingGates = nil
	expect(t, "let in", moveTexts(q.Update(labelled, open, at(3))),
		"web to active (TargetPodUpdatePodSchedulingGatesEliminated)")
}

// row: SCH-30
func TestPodUpdateMovesItself(t *testing.T) {
	q := newQueue()
	p := pod("web", 0)
	q.Add(p, at(0))
	q.AddUnschedulableIfNotPresent(q.Pop(at(0)), refusedBy("label"), at(0))
	same := p.DeepCopy()
	same.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled}}
	expect(t, "our own condition", moveTexts(q.Update(p, same, at(1))), "")
	changed := p.DeepCopy()
	changed.Labels = map[string]string{"a": "b"}
	expect(t, "a label", moveTexts(q.Update(p, changed, at(1))), "web to active (TargetPodUpdatePodLabel by label)")
}

// row: SCH-30
func TestUnschedulablePodsAreFlushedAfterFiveMinutes(t *testing.T) {
	q := newQueue()
	q.Add(pod("web", 0), at(0))
	q.AddUnschedulableIfNotPresent(q.Pop(at(0)), refusedBy("fit"), at(0))
	if got := q.NextFlush(); !got.Equal(at(300)) {
		t.Errorf("wakes at %v", got)
	}
	expect(t, "before", moveTexts(q.Flush(at(299))), "")
	expect(t, "after", moveTexts(q.Flush(at(300))), "web to active (UnschedulableTimeout)")
}

func TestActivate(t *testing.T) {
	q := newQueue()
	q.Add(pod("a", 0), at(0))
	q.Add(pod("b", 0), at(0))
	a, b := q.Pop(at(0)), q.Pop(at(0))
	q.AddUnschedulableIfNotPresent(a, refusedBy("fit"), at(0))
	expect(t, "parked", moveTexts(q.Activate([]types.UID{"a", "b"}, at(0))), "a to active (ForceActivate)")
	expect(t, "in flight, when it comes back", moveTexts(q.AddUnschedulableIfNotPresent(b, refusedBy("fit"), at(0))),
		"b to backoff (ForceActivate)")
}

// Every Pod is always in exactly one place, and nobody is lost.
//
// row: SCH-30
func TestNoPodIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue()
		now := t0
		alive, flying := map[string]bool{}, map[string]*queue.Entry{}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				n := fmt.Sprintf("p%d", rapid.IntRange(0, 6).Draw(t, "pod"))
				if flying[n] == nil {
					alive[n] = true
					q.Add(pod(n, rapid.Int32Range(0, 2).Draw(t, "priority")), now)
				}
			},
			"pop": func(t *rapid.T) {
				if e := q.Pop(now); e != nil {
					flying[e.Pod().Name] = e
				}
			},
			"return": func(t *rapid.T) {
				for n, e := range flying {
					f := rapid.SampledFrom([]queue.Failure{refusedBy("fit"), refusedBy("label"), {}}).Draw(t, "why")
					q.AddUnschedulableIfNotPresent(e, f, now)
					delete(flying, n)
					return
				}
			},
			"bind": func(t *rapid.T) {
				for n := range flying {
					q.Done(types.UID(n))
					delete(flying, n)
					delete(alive, n)
					return
				}
			},
			"event": func(t *rapid.T) { q.MoveAllToActiveOrBackoffQueue(queue.Event{ClusterEvent: podGone}, now) },
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 4000).Draw(t, "ms")) * time.Millisecond)
				q.Flush(now)
			},
			"": func(t *rapid.T) {
				c := q.StageCounts()
				if got := c.Active + c.Backoff + c.Unschedulable + c.Gated; got != len(alive)-len(flying) ||
					c.InFlight != len(flying) || len(q.PendingPods()) != got {
					t.Fatalf("%+v, want %d waiting and %d in flight", c, len(alive)-len(flying), len(flying))
				}
			},
		})
	})
}

// row: SCH-30
func TestNodeAndPodUpdateEvents(t *testing.T) {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}}}
	heartbeat := n.DeepCopy()
	heartbeat.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue,
		LastHeartbeatTime: metav1.Now()}}
	later := heartbeat.DeepCopy()
	later.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(t0)
	if got := queue.NodeSchedulingPropertiesChange(heartbeat, later); len(got) != 0 {
		t.Errorf("a heartbeat: got %v, want none", got)
	}
	cordoned := later.DeepCopy()
	cordoned.Spec.Unschedulable = true
	cordoned.Labels = nil
	var got []string
	for _, e := range queue.NodeSchedulingPropertiesChange(later, cordoned) {
		got = append(got, e.Label())
	}
	expect(t, "labels and cordon", strings.Join(got, " "), "NodeUpdateNodeLabel NodeUpdateNodeTaint")
}

// row: SCH-22
func TestProfilesMaySortInTheirOwnWay(t *testing.T) {
	byName := func(a, b framework.QueuedEntityInfo) bool {
		return a.(*queue.Entry).Pod().Name < b.(*queue.Entry).Pod().Name
	}
	q := queue.New(queue.Options{Less: prioritysort.New().Less, Log: logr.Discard(),
		ProfileLess: map[string]queue.ProfileLess{"batch": {Name: "ByName", Less: byName}}})
	batch := func(p *v1.Pod) { p.Spec.SchedulerName = "batch" }
	for i, p := range []*v1.Pod{pod("z", 0, batch), pod("web", 0), pod("a", 0, batch), pod("urgent", 9)} {
		q.Add(p, at(float64(i)))
	}
	var got []string
	for e := q.Pop(at(9)); e != nil; e = q.Pop(at(9)) {
		got = append(got, e.Pod().Name)
	}
	expect(t, "order", strings.Join(got, " "), "urgent web a z") // a is ahead of z in its lane, and later than web
}

// row: SCH-33
func TestGatedPodsAreRarelyReevaluated(t *testing.T) {
	q := newQueue()
	q.Add(pod("web", 0, func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}} }), at(0))
	expect(t, "due", q.NextFlush().String(), at(300).String())
	expect(t, "flush", moveTexts(q.Flush(at(300))), "")
	expect(t, "due again", q.NextFlush().String(), at(600).String())
}
