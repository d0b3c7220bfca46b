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
)

var (
	t0      = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	nodeAdd = framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add}
	podGone = framework.ClusterEvent{Resource: framework.AssignedPod, ActionType: framework.Delete}
)

func pod(name string, priority int32, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name)}, Spec: v1.PodSpec{SchedulerName: "s", Priority: &priority}}
	for _, f := range change {
		f(p)
	}
	return p
}

// newQueue has two plugins: "fit" wakes for new nodes of a name the Pod starts with and for Pods that go; "wait" for Pods that go.
func newQueue() *queue.Queue {
	fit := func(_ logr.Logger, p *v1.Pod, _, obj any) (framework.QueueingHint, error) {
		if n, ok := obj.(*v1.Node); ok && !strings.HasPrefix(p.Name, n.Name) {
			return framework.QueueSkip, nil
		}
		return framework.Queue, nil
	}
	return queue.New(queue.Options{
		Less: prioritysort.New().Less, Log: logr.Discard(),
		Gate: func(p *v1.Pod) *framework.Status {
			if len(p.Spec.SchedulingGates) > 0 {
				return framework.NewStatus(framework.UnschedulableAndUnresolvable, "gated").WithPlugin("gate")
			}
			return nil
		},
		Hints: map[string][]queue.Hint{"s": {
			{Plugin: "fit", Event: nodeAdd, Fn: fit},
			{Plugin: "fit", Event: framework.ClusterEvent{Resource: framework.Pod, ActionType: framework.Delete}},
			{Plugin: "wait", Event: podGone},
			{Plugin: "gate", Event: framework.ClusterEvent{Resource: framework.TargetPod, ActionType: framework.UpdatePodSchedulingGatesEliminated}},
			{Plugin: "label", Event: framework.ClusterEvent{Resource: framework.TargetPod, ActionType: framework.UpdatePodLabel}},
		}},
	})
}

func at(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }

func by(plugins ...string) queue.Failed {
	return queue.Failed{Rejectors: sets.New(plugins...), Pending: sets.Set[string]{}}
}

func says(moves []queue.Move) string {
	var out []string
	for _, m := range moves {
		s := fmt.Sprintf("%s to %s (%s", m.Entry.Pod().Name, m.To, m.Cause)
		if m.By != "" {
			s += " by " + m.By
		}
		if m.Ignored {
			s = strings.Replace(s, " to ", " stays ", 1)
		}
		out = append(out, s+")")
	}
	return strings.Join(out, ", ")
}

func want(t *testing.T, what, got, want string) {
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
	want(t, "order", strings.Join(got, " "), "old-high new-high old-low")
}

// row: SCH-30
func TestOnlyHelpfulEventsWake(t *testing.T) {
	q := newQueue()
	q.Add(pod("web", 0), at(0))
	want(t, "returned", says(q.Return(q.Pop(at(0)), by("fit"), at(0))), "web to unschedulable (ScheduleAttemptFailure)")
	want(t, "pop", name(q.Pop(at(1))), "nobody")
	other := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "db"}}
	want(t, "unhelpful node", says(q.Happened(queue.Event{ClusterEvent: nodeAdd, New: other}, at(1))), "web stays unschedulable (NodeAdd by fit)")
	want(t, "told once", says(q.Happened(queue.Event{ClusterEvent: nodeAdd, New: other}, at(1))), "")
	mine := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "we"}}
	want(t, "helpful node", says(q.Happened(queue.Event{ClusterEvent: nodeAdd, New: mine}, at(2))), "web to active (NodeAdd by fit)")
	e := q.Pop(at(2))
	want(t, "refused by another plugin", says(q.Return(e, by("label"), at(2))), "web to unschedulable (ScheduleAttemptFailure)")
	want(t, "its events do not help", says(q.Happened(queue.Event{ClusterEvent: nodeAdd, New: mine}, at(9))), "")
	want(t, "nor those that a plugin hears of which saw no harm", says(q.Happened(queue.Event{ClusterEvent: podGone}, at(9))), "")
}

func TestBackoffDoublesToTenSeconds(t *testing.T) {
	q := newQueue()
	q.Add(pod("web", 0), at(0))
	now := at(0)
	var got []string
	for range 6 {
		e := q.Pop(now)
		q.Return(e, by("fit"), now)
		got = append(got, e.BackoffUntil.Sub(now).String())
		q.Happened(queue.Event{ClusterEvent: podGone}, now)
		want(t, "place", string(e.Place), "backoff")
		if next := q.Wake(); !next.Equal(e.BackoffUntil) {
			t.Errorf("wakes at %v, want the end of the back-off %v", next, e.BackoffUntil)
		}
		now = e.BackoffUntil
		want(t, "over", says(q.Flush(now)), "web to active (BackoffComplete)")
	}
	want(t, "back-offs", strings.Join(got, " "), "1s 2s 4s 8s 10s 10s")
	for range 70 { // as many doublings as no number of nanoseconds holds
		e := q.Pop(now)
		q.Return(e, by("fit"), now)
		q.Happened(queue.Event{ClusterEvent: podGone}, now)
		want(t, "in the end", e.BackoffUntil.Sub(now).String(), "10s")
		now = e.BackoffUntil
		q.Flush(now)
	}
}

func TestIdleQueueTakesFromBackoffButNotAfterErrors(t *testing.T) {
	q := newQueue()
	q.Add(pod("web", 0), at(0))
	q.Return(q.Pop(at(0)), by("fit"), at(0))
	q.Happened(queue.Event{ClusterEvent: podGone}, at(0))
	e := q.Pop(at(0))
	want(t, "nobody else is there", name(e), "web")
	want(t, "an error", says(q.Return(e, queue.Failed{}, at(0))), "web to backoff (ScheduleAttemptFailure)")
	want(t, "waits its time", name(q.Pop(at(0.9))), "nobody")
	q.Flush(at(1))
	want(t, "then comes", name(q.Pop(at(1))), "web")
}

func TestEventsDuringFlightAreNotMissed(t *testing.T) {
	q := newQueue()
	q.Add(pod("web", 0), at(0))
	q.Add(pod("late", 0), at(1))
	e := q.Pop(at(1))
	q.Happened(queue.Event{ClusterEvent: podGone}, at(1))
	l := q.Pop(at(1)) // takes off after the event
	want(t, "woken at once, after its back-off", says(q.Return(e, by("fit"), at(2))), "web to backoff (AssignedPodDelete by fit)")
	want(t, "saw no event", says(q.Return(l, by("fit"), at(2))), "late to unschedulable (ScheduleAttemptFailure)")
	q.Flush(at(4))
	e = q.Pop(at(4))
	want(t, "a new flight begins without old events", says(q.Return(e, by("fit"), at(4))), "web to unschedulable (ScheduleAttemptFailure)")
	q.Delete("late")
	want(t, "in flight", fmt.Sprint(q.Count()), "{0 0 1 0 0}")
	want(t, "events kept for nobody", fmt.Sprint(q.InFlightEvents()), "map[]")
	q.Add(pod("api", 0), at(5))
	e = q.Pop(at(5))
	q.Happened(queue.Event{ClusterEvent: podGone}, at(5))
	want(t, "what helps others' refusals does not help", says(q.Return(e, by("label"), at(5))), "api to unschedulable (ScheduleAttemptFailure)")
}

func TestPendingPodsSkipTheirBackoff(t *testing.T) {
	q := newQueue()
	q.Add(pod("web", 0), at(0))
	q.Return(q.Pop(at(0)), queue.Failed{Rejectors: sets.New("fit"), Pending: sets.New("wait")}, at(0))
	want(t, "at once", says(q.Happened(queue.Event{ClusterEvent: podGone}, at(0))), "web to active (AssignedPodDelete by wait)")
}

// row: SCH-33
func TestGates(t *testing.T) {
	q := newQueue()
	gated := pod("web", 0, func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}} })
	want(t, "kept out", says(q.Add(gated, at(0))), "web to gated (PodAdd by gate)")
	want(t, "deaf to other events", says(q.Happened(queue.Event{ClusterEvent: podGone}, at(1))), "")
	labelled := gated.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	want(t, "still gated", says(q.Update(gated, labelled, at(2))), "")
	open := labelled.DeepCopy()
	open.Spec.SchedulingGates = nil
	want(t, "let in", says(q.Update(labelled, open, at(3))), "web to active (TargetPodUpdatePodSchedulingGatesEliminated)")
}

func TestOwnChangeWakes(t *testing.T) {
	q := newQueue()
	p := pod("web", 0)
	q.Add(p, at(0))
	q.Return(q.Pop(at(0)), by("label"), at(0))
	same := p.DeepCopy()
	same.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled}}
	want(t, "our own condition", says(q.Update(p, same, at(1))), "")
	changed := p.DeepCopy()
	changed.Labels = map[string]string{"a": "b"}
	want(t, "a label", says(q.Update(p, changed, at(1))), "web to active (TargetPodUpdatePodLabel by label)")
}

func TestNobodyWaitsLongerThanFiveMinutes(t *testing.T) {
	q := newQueue()
	q.Add(pod("web", 0), at(0))
	q.Return(q.Pop(at(0)), by("fit"), at(0))
	if got := q.Wake(); !got.Equal(at(300)) {
		t.Errorf("wakes at %v", got)
	}
	want(t, "before", says(q.Flush(at(299))), "")
	want(t, "after", says(q.Flush(at(300))), "web to active (UnschedulableTimeout)")
}

func TestActivate(t *testing.T) {
	q := newQueue()
	q.Add(pod("a", 0), at(0))
	q.Add(pod("b", 0), at(0))
	a, b := q.Pop(at(0)), q.Pop(at(0))
	q.Return(a, by("fit"), at(0))
	want(t, "parked", says(q.Activate([]types.UID{"a", "b"}, at(0))), "a to active (ForceActivate)")
	want(t, "in flight, when it comes back", says(q.Return(b, by("fit"), at(0))), "b to backoff (ForceActivate)")
}

// Every Pod is always in exactly one place, and nobody is lost.
func TestNobodyIsLost(t *testing.T) {
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
					f := rapid.SampledFrom([]queue.Failed{by("fit"), by("label"), {}}).Draw(t, "why")
					q.Return(e, f, now)
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
			"event": func(t *rapid.T) { q.Happened(queue.Event{ClusterEvent: podGone}, now) },
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 4000).Draw(t, "ms")) * time.Millisecond)
				q.Flush(now)
			},
			"": func(t *rapid.T) {
				c := q.Count()
				if got := c.Active + c.Backoff + c.Unschedulable + c.Gated; got != len(alive)-len(flying) || c.InFlight != len(flying) || len(q.Entries()) != got {
					t.Fatalf("%+v, want %d waiting and %d in flight", c, len(alive)-len(flying), len(flying))
				}
			},
		})
	})
}

func TestChanges(t *testing.T) {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}}}
	beat := n.DeepCopy()
	beat.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
	later := beat.DeepCopy()
	later.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(t0)
	if got := queue.NodeChange(beat, later); len(got) != 0 {
		t.Errorf("a heartbeat is %v", got)
	}
	cordoned := later.DeepCopy()
	cordoned.Spec.Unschedulable = true
	cordoned.Labels = nil
	var got []string
	for _, e := range queue.NodeChange(later, cordoned) {
		got = append(got, e.Label())
	}
	want(t, "labels and cordon", strings.Join(got, " "), "NodeUpdateNodeLabel NodeUpdateNodeTaint")
}

// row: SCH-22
func TestProfilesMaySortInTheirOwnWay(t *testing.T) {
	byName := func(a, b framework.QueuedEntityInfo) bool {
		return a.(*queue.Entry).Pod().Name < b.(*queue.Entry).Pod().Name
	}
	q := queue.New(queue.Options{Less: prioritysort.New().Less, Log: logr.Discard(), Orders: map[string]queue.Order{"batch": {Name: "ByName", Less: byName}}})
	batch := func(p *v1.Pod) { p.Spec.SchedulerName = "batch" }
	for i, p := range []*v1.Pod{pod("z", 0, batch), pod("web", 0), pod("a", 0, batch), pod("urgent", 9)} {
		q.Add(p, at(float64(i)))
	}
	var got []string
	for e := q.Pop(at(9)); e != nil; e = q.Pop(at(9)) {
		got = append(got, e.Pod().Name)
	}
	want(t, "order", strings.Join(got, " "), "urgent web a z") // a is ahead of z in its lane, and later than web
}

func TestGatedPodsAreLookedAtOnceInALongTime(t *testing.T) {
	q := newQueue()
	q.Add(pod("web", 0, func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}} }), at(0))
	want(t, "due", q.Wake().String(), at(300).String())
	want(t, "flush", says(q.Flush(at(300))), "")
	want(t, "due again", q.Wake().String(), at(600).String())
}
