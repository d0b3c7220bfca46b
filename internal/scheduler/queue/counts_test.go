package queue_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// fail pops a Pod out of its turn and gives it back as refused by plugins, or as failed.
func fail(t *testing.T, q *queue.Queue, name string, s float64, plugins ...string) {
	t.Helper()
	e := q.PopPod(types.UID(name), at(s))
	if e == nil {
		t.Fatalf("%s does not wait here", name)
	}
	q.AddUnschedulableIfNotPresent(e, refusedBy(plugins...), at(s))
}

// Pods and groups are counted by stage, a group where its first Pod will be tried soonest, and
// unschedulable Pods by each plugin that refused them.
func TestCounts(t *testing.T) {
	gated := func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}} }
	elsewhere := func(p *v1.Pod) { p.Namespace = "ns2" }
	q := newQueue()
	for _, p := range []*v1.Pod{pod("alone", 0), pod("g-1", 0), pod("g-2", 0), pod("h-1", 0), pod("h-2", 0),
		pod("i-1", 0, gated), pod("i-2", 0, gated), pod("gate", 0, gated), pod("j-1", 0), pod("j-2", 0, gated),
		pod("k-1", 0, elsewhere), pod("k-2", 0), pod("two", 0)} {
		q.Add(p, at(0))
	}
	fail(t, q, "g-2", 1, "fit")
	fail(t, q, "h-1", 1)
	fail(t, q, "h-2", 1, "fit", "wait")
	fail(t, q, "j-1", 1, "wait")
	fail(t, q, "two", 1, "fit", "wait")
	group := func(p *v1.Pod) string {
		if name, _, ok := strings.Cut(p.Name, "-"); ok {
			return name
		}
		return ""
	}
	text := func(c map[queue.Stage]queue.EntityCounts) string {
		return fmt.Sprint(c[queue.Active], c[queue.Backoff], c[queue.Unschedulable], c[queue.Gated])
	}
	// active: alone, g by its first, k of each namespace; back-off: h; unschedulable: two, j;
	// gated: gate, i
	expect(t, "entities", text(q.EntityCounts(group)), "{1 3} {0 1} {1 1} {1 1}")
	expect(t, "without groups", text(q.EntityCounts(nil)), "{4 0} {1 0} {4 0} {4 0}")
	expect(t, "by plugin", fmt.Sprint(q.UnschedulablePodsByPlugin()), fmt.Sprint(map[queue.UnschedulablePlugin]int{
		{Profile: "s", Plugin: "fit"}: 3, {Profile: "s", Plugin: "wait"}: 3, {Profile: "s", Plugin: "gate"}: 4}))
	for _, name := range []string{"g-2", "h-2", "j-1", "two", "i-1", "i-2", "gate", "j-2"} {
		q.Delete(types.UID(name))
	}
	expect(t, "by plugin, when all are gone", fmt.Sprint(q.UnschedulablePodsByPlugin()), "map[]")
	expect(t, "entities, without those", text(q.EntityCounts(group)), "{1 3} {0 1} {0 0} {0 0}")
	q.Add(pod("again", 0), at(5))
	fail(t, q, "again", 5, "fit")
	if got := q.NextFlush(); !got.Equal(at(2)) { // of h-1, whose back-off is a second
		t.Errorf("next flush at %v, want %v", got, at(2))
	}
	q.Delete("h-1")
	if got := q.NextFlush(); !got.Equal(at(305)) { // of again, and of none that has gone
		t.Errorf("next flush at %v, want %v", got, at(305))
	}
}

// A Pod is taken out of its turn whatever it waits for, but not behind a gate, and not twice; what
// happens meanwhile is kept for it.
func TestPopPod(t *testing.T) {
	q := newQueue()
	q.Add(pod("web", 0), at(0))
	q.Add(pod("gated", 0, func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}} }), at(0))
	expect(t, "one that is not there", name(q.PopPod("other", at(1))), "nobody")
	expect(t, "a gated one", name(q.PopPod("gated", at(1))), "nobody")
	e := q.PopPod("web", at(1))
	expect(t, "an active one", name(e), "web")
	if e.Attempts != 1 || e.Stage != queue.InFlight || e.InitialAttemptTimestamp == nil ||
		!e.InitialAttemptTimestamp.Equal(at(1)) {
		t.Errorf("attempt %d at stage %v, first at %v, want 1, in flight, %v", e.Attempts, e.Stage,
			e.InitialAttemptTimestamp, at(1))
	}
	expect(t, "one in flight", name(q.PopPod("web", at(1))), "nobody")
	expect(t, "nor in its turn", name(q.Pop(at(1))), "nobody")
	q.MoveAllToActiveOrBackoffQueue(queue.Event{ClusterEvent: podGone}, at(1))
	q.MoveAllToActiveOrBackoffQueue(queue.Event{ClusterEvent: podGone}, at(1))
	expect(t, "kept", fmt.Sprint(q.InFlightEvents()), fmt.Sprintf("map[%s:2 PodPopped:1]", podGone.Label()))
	expect(t, "came back", moveTexts(q.AddUnschedulableIfNotPresent(e, refusedBy("wait"), at(1))),
		"web to backoff ("+podGone.Label()+" by wait)")
	expect(t, "kept then", fmt.Sprint(q.InFlightEvents()), "map[]")
	e = q.PopPod("web", at(1))
	if name(e) != "web" || e.Attempts != 2 || !e.InitialAttemptTimestamp.Equal(at(1)) {
		t.Errorf("from back-off: %s, attempt %d, want web, 2, first at %v", name(e), e.Attempts, at(1))
	}
	q.AddUnschedulableIfNotPresent(e, refusedBy("fit"), at(9))
	if e = q.PopPod("web", at(9)); name(e) != "web" || !e.InitialAttemptTimestamp.Equal(at(1)) {
		t.Errorf("unschedulable: %s, first at %v, want web, %v", name(e), e.InitialAttemptTimestamp, at(1))
	}
	q.Activate([]types.UID{"web", "gone"}, at(9))
	expect(t, "activated meanwhile", moveTexts(q.AddUnschedulableIfNotPresent(e, refusedBy("fit"), at(9))),
		"web to backoff ("+queue.CauseActivation+")")
}

// A nomination whose write is under way outlasts updates that do not name a node; one that the Pod
// named ends when it names none.
func TestNominationsFollowUpdates(t *testing.T) {
	named := func(node string) *v1.Pod {
		return pod("p", 0, func(p *v1.Pod) { p.Status.NominatedNodeName = node })
	}
	for what, c := range map[string]struct {
		before   string // nominated by AddNominatedPod
		old, now *v1.Pod
		want     string
	}{
		"under way":              {"a", named(""), named(""), "a"},
		"under way, seen first":  {"a", nil, named(""), "a"},
		"it is written":          {"a", named(""), named("a"), "a"},
		"it is written, another": {"a", named(""), named("b"), "b"},
		"it is taken back":       {"a", named("a"), named(""), ""},
		"it changes":             {"a", named("a"), named("b"), "b"},
		"it stays":               {"a", named("a"), named("a"), "a"},
		"there was none":         {"", named(""), named(""), ""},
		"it comes":               {"", nil, named("b"), "b"},
	} {
		n := queue.NewNominator()
		info := func(p *v1.Pod) *snapshot.PodInfo {
			i, err := snapshot.NewPodInfo(p)
			if err != nil {
				t.Fatal(err)
			}
			return i
		}
		if n.NominatedNodes() != nil || !n.Empty() {
			t.Errorf("%s: at first on %v, want nowhere", what, n.NominatedNodes())
		}
		n.AddNominatedPod(info(pod("q", 0)), "")
		n.AddNominatedPod(info(named("")), c.before)
		p := info(c.now)
		n.UpdateNominatedPod(c.old, p)
		if got := n.NominatedNodeName("p"); got != c.want || n.Empty() != (c.want == "") ||
			strings.Join(n.NominatedNodes(), " ") != c.want {
			t.Errorf("%s: on %q, of all nodes %v, want %q", what, got, n.NominatedNodes(), c.want)
		}
		if list := n.NominatedPodsForNode(c.want); c.want != "" && (len(list) != 1 || list[0].GetPod() != c.now) {
			t.Errorf("%s: %v are nominated there, want the Pod as it is now", what, list)
		}
	}
}
