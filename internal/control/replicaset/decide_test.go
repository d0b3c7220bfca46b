package replicaset

import (
	"errors"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/test/wrappers"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

type podOption func(*corev1.Pod)

func pod(name string, opts ...podOption) *corev1.Pod {
	p := wrappers.MakePod().Name(name).CreationTimestamp(metav1.NewTime(t0.Add(-time.Hour))).Label("app", "a").
		Node("n1").Phase(corev1.PodRunning).Obj(readyFor(time.Hour))
	for _, o := range opts {
		o(p)
	}
	return p
}

func readyFor(d time.Duration) podOption {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(t0.Add(-d))}}
	}
}

func unready(p *corev1.Pod)     { p.Status.Conditions = nil }
func unbound(p *corev1.Pod)     { p.Spec.NodeName = "" }
func pending(p *corev1.Pod)     { p.Status.Phase = corev1.PodPending }
func ending(p *corev1.Pod)      { now := metav1.NewTime(t0); p.DeletionTimestamp = &now }
func failed(p *corev1.Pod)      { p.Status.Phase = corev1.PodFailed }
func onNode(n string) podOption { return func(p *corev1.Pod) { p.Spec.NodeName = n } }
func cost(c string) podOption {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: c} }
}
func restarted(n int32) podOption {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: n}} }
}
func identified(uid types.UID) podOption { return func(p *corev1.Pod) { p.UID = uid } }
func aged(d time.Duration) podOption {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(t0.Add(-d)) }
}

func set(n int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 3},
		Spec: appsv1.ReplicaSetSpec{Replicas: &n,
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}}}}}
}

// row: CTL-01
func TestDeletionOrder(t *testing.T) {
	for _, c := range []struct {
		name        string
		first, then *corev1.Pod
		siblings    map[string]int
	}{
		{"unassigned before assigned", pod("first", unbound), pod("then"), nil},
		{"pending before running", pod("first", pending), pod("then"), nil},
		{"not ready before ready", pod("first", unready), pod("then"), nil},
		{"cheap before dear", pod("first", cost("-5")), pod("then", cost("10")), nil},
		{"crowded node before empty one", pod("first", onNode("full")), pod("then", onNode("empty")),
			map[string]int{"full": 3, "empty": 1}},
		{"ready for a shorter time", pod("first", readyFor(time.Second)), pod("then", readyFor(time.Hour)), nil},
		{"more restarts", pod("first", restarted(4)), pod("then", restarted(1)), nil},
		{"younger", pod("first", aged(time.Second)), pod("then", aged(time.Hour)), nil},
		{"ready as long by powers of two, by UID and not by restarts",
			pod("first", readyFor(time.Hour), identified("a")),
			pod("then", readyFor(time.Hour+time.Second), identified("b"), restarted(4)), nil},
		{"ready at the same time, more restarts", pod("first", readyFor(time.Hour), identified("b"), restarted(4)),
			pod("then", readyFor(time.Hour), identified("a")), nil},
		{"as old by powers of two, by UID", pod("first", aged(time.Hour), identified("a")),
			pod("then", aged(time.Hour-time.Second), identified("b")), nil},
		{"equal, by UID", pod("first", identified("a")), pod("then", identified("b")), nil},
		{"readiness outweighs cost", pod("first", unready, cost("100")), pod("then", cost("-100")), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, order := range [][]*corev1.Pod{{c.first, c.then}, {c.then, c.first}} {
				got := Next(In{Set: set(1), Pods: order, Siblings: c.siblings, Now: t0}).Delete
				if len(got) != 1 || got[0].Name != "first" {
					t.Fatalf("goes first: got %v, want one of them and [0].Name first", got)
				}
			}
		})
	}
}

// row: TRM-16
// row: CTL-01, CTL-02
func TestOnlyLivePodsCount(t *testing.T) {
	in := In{Set: set(3), Pods: []*corev1.Pod{pod("a"), pod("b", ending), pod("c", failed)}, Now: t0}
	if got := Next(in); got.Create != 2 || got.Delete != nil {
		t.Fatalf("want two creations for the ending and the failed one, have %+v", got)
	}
	succeeded := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	for name, c := range map[string]struct {
		pods   []*corev1.Pod
		create int
		delete string
	}{
		"a succeeded one is replaced": {[]*corev1.Pod{pod("a"), pod("b"), pod("c", succeeded)}, 1, ""},
		"so is a failed one":          {[]*corev1.Pod{pod("a"), pod("b"), pod("c", failed)}, 1, ""},
		"an unready one is not":       {[]*corev1.Pod{pod("a"), pod("b"), pod("c", unready)}, 0, ""},
		"nor is a pending one":        {[]*corev1.Pod{pod("a"), pod("b"), pod("c", pending)}, 0, ""},
		"all are missing":             {nil, 3, ""},
		"one too many beside ended ones": {[]*corev1.Pod{pod("a"), pod("b"), pod("c"), pod("d", pending),
			pod("e", failed), pod("f", succeeded)}, 0, "d"},
	} {
		got := Next(In{Set: set(3), Pods: c.pods, Now: t0})
		gone := ""
		for _, p := range got.Delete {
			gone += p.Name
		}
		if got.Create != c.create || gone != c.delete {
			t.Errorf("%s: creates %d, deletes %q, want %d, %q", name, got.Create, gone, c.create, c.delete)
		}
	}
	deleted := metav1.NewTime(t0)
	in.Set.DeletionTimestamp = &deleted
	if got := Next(in); got.Create != 0 {
		t.Fatalf("an ending set still creates: got %v, want 0", got.Create)
	}
}

// row: CTL-01
func TestStatusCountsAndWaitsForAvailability(t *testing.T) {
	rs := set(4)
	rs.Spec.MinReadySeconds = 10
	in := In{Set: rs, Now: t0, Pods: []*corev1.Pod{pod("a", readyFor(time.Minute)), pod("b", readyFor(4*time.Second)),
		pod("c", unready), pod("d", ending)}}
	in.Pods[2].Labels = map[string]string{"other": "x"}
	s, again := Status(in, nil)
	if s.Replicas != 3 || s.ReadyReplicas != 2 || s.AvailableReplicas != 1 || s.FullyLabeledReplicas != 2 ||
		*s.TerminatingReplicas != 1 || s.ObservedGeneration != 3 {
		t.Fatalf("got %+v, want Replicas 3, ReadyReplicas 2, AvailableReplicas 1, FullyLabeledReplicas 2, "+
			"TerminatingReplicas 1 and ObservedGeneration 3", s)
	}
	if again != 6*time.Second {
		t.Fatalf("looks again after %s, the Pod becomes available in 6s", again)
	}
}

func TestFailureIsACondition(t *testing.T) {
	s, _ := Status(In{Set: set(1), Now: t0}, errors.New("quota"))
	if len(s.Conditions) != 1 || s.Conditions[0].Reason != "FailedCreate" || s.Conditions[0].Message != "quota" {
		t.Fatalf("got %+v, want 1 in Conditions, Reason FailedCreate and Message quota", s.Conditions)
	}
	rs := set(1)
	rs.Status = s
	if s, _ = Status(In{Set: rs, Now: t0}, nil); len(s.Conditions) != 0 {
		t.Fatalf("the condition outlives the failure: got %d, want 0", len(s.Conditions))
	}
}

// row: CTL-01
func TestPlanAlwaysReachesTheWantedNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Int32Range(0, 20).Draw(t, "want")
		kinds := [][]podOption{nil, {unready}, {pending, unbound}, {ending}, {failed}}
		var pods []*corev1.Pod
		for i, k := range rapid.SliceOfN(rapid.IntRange(0, len(kinds)-1), 0, 30).Draw(t, "pods") {
			p := pod("p", kinds[k]...)
			p.UID = "u" + p.UID + "x"
			p.Name = string(rune('a' + i))
			pods = append(pods, p)
		}
		plan := Next(In{Set: set(want), Pods: pods, Now: t0})
		if left := len(Active(pods)) + plan.Create - len(plan.Delete); left != int(want) {
			t.Fatalf("%d Pods after the plan, want %d", left, want)
		}
		for _, p := range plan.Delete {
			if p.DeletionTimestamp != nil {
				t.Fatal("an ending Pod is deleted again")
			}
		}
	})
}

// A Ready condition without lastTransitionTime does not show since when: with minReadySeconds the
// Pod is not available, as upstream.
func TestPodReadyWithoutTransitionTimeIsNotAvailable(t *testing.T) {
	for _, seconds := range []int32{0, 10} {
		rs := set(1)
		rs.Spec.MinReadySeconds = seconds
		p := pod("a")
		p.Status.Conditions[0].LastTransitionTime = metav1.Time{}
		s, _ := Status(In{Set: rs, Now: t0, Pods: []*corev1.Pod{p}}, nil)
		if available := s.AvailableReplicas == 1; available != (seconds == 0) {
			t.Errorf("minReadySeconds %d: available: got %v, want %v", seconds, available, (seconds == 0))
		}
	}
}

// Of the ready Pods that go, the ages are divided by that of the youngest ready one.
func TestAgesOfPodsThatGo(t *testing.T) {
	old, young := pod("old", aged(time.Hour)), pod("young", aged(10*time.Minute))
	fresh := pod("fresh", aged(time.Second), unready)
	for _, c := range []struct {
		name string
		pods []*corev1.Pod
		gone []*corev1.Pod
		want []float64
	}{
		{"the youngest", []*corev1.Pod{old, young}, []*corev1.Pod{young}, []float64{1}},
		{"the oldest", []*corev1.Pod{old, young}, []*corev1.Pod{old}, []float64{6}},
		{"one that is not ready", []*corev1.Pod{old, young, fresh}, []*corev1.Pod{fresh, old}, []float64{6}},
		{"all", []*corev1.Pod{old, young}, []*corev1.Pod{young, old}, nil},
		{"none", []*corev1.Pod{old, young}, nil, nil},
		{"beside one of this moment", []*corev1.Pod{old, pod("now", aged(0))}, []*corev1.Pod{old}, nil},
	} {
		got := deletionAgeRatios(In{Set: set(1), Pods: c.pods, Now: t0}, Plan{Delete: c.gone})
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
