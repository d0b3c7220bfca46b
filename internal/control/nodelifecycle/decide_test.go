package nodelifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// row: CTL-15
func TestSilenceIsMeasuredByOurOwnClock(t *testing.T) {
	h := Listen(Heard{}, "beat-1", true, t0)
	h = Listen(h, "beat-1", true, t0.Add(30*time.Second)) // the same beat again is no sign of life
	if silent, again := Silent(h, t0.Add(30*time.Second)); silent || again != 20*time.Second {
		t.Fatal(silent, again)
	}
	if silent, _ := Silent(h, t0.Add(Grace)); !silent {
		t.Fatal("silent for the whole grace period and not noticed")
	}
	h = Listen(h, "beat-2", true, t0.Add(49*time.Second))
	if silent, _ := Silent(h, t0.Add(Grace)); silent {
		t.Fatal("a new beat is a sign of life")
	}
}

func TestUnknownConditions(t *testing.T) {
	n := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}}}
	got, changed := Unknown(n, metav1.NewTime(t0))
	if !changed || len(got) != 4 || got[0].Status != corev1.ConditionUnknown || got[0].Reason != "NodeStatusUnknown" || got[0].Message != "Kubelet stopped posting node status." || got[1].Reason != "NodeStatusNeverUpdated" {
		t.Fatalf("%+v", got)
	}
	n.Status.Conditions = got
	if _, changed := Unknown(n, metav1.NewTime(t0)); changed {
		t.Fatal("a second look changes again")
	}
}

func TestTaintsFollowConditionsAndKeepOthers(t *testing.T) {
	own := corev1.Taint{Key: "dedicated", Value: "web", Effect: corev1.TaintEffectNoSchedule}
	ready := func(s corev1.ConditionStatus) []corev1.NodeCondition {
		return []corev1.NodeCondition{{Type: corev1.NodeReady, Status: s}}
	}
	keys := func(ts []corev1.Taint) (out []string) {
		for _, t := range ts {
			out = append(out, t.Key+":"+string(t.Effect))
		}
		return out
	}
	n := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{own}}, Status: corev1.NodeStatus{Conditions: ready(corev1.ConditionUnknown)}}
	got, changed := Taints(n, metav1.NewTime(t0))
	want := []string{"dedicated:NoSchedule", "node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"}
	if diff := cmp.Diff(want, keys(got)); diff != "" || !changed {
		t.Fatal(diff)
	}
	n.Spec.Taints = got
	if _, changed := Taints(n, metav1.NewTime(t0)); changed {
		t.Fatal("a second look changes again")
	}
	n.Status.Conditions, n.Spec.Unschedulable = ready(corev1.ConditionTrue), true
	got, _ = Taints(n, metav1.NewTime(t0))
	if diff := cmp.Diff([]string{"dedicated:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule"}, keys(got)); diff != "" {
		t.Fatal(diff)
	}
}

// A kubelet that is away for five seconds is not missed: its node stays ready. One that stays away longer than the grace period is: Ready becomes Unknown, and
// the taints follow.
//
// row: KSL-10
func TestAFlapIsNotSeen(t *testing.T) {
	const beat = 10 * time.Second // how often a kubelet renews its lease
	node := func() *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	}
	for _, c := range []struct {
		away time.Duration
		lost bool
	}{{5 * time.Second, false}, {30 * time.Second, false}, {Grace + beat, true}} {
		h, lost := Listen(Heard{}, "1", true, t0), false
		for at := time.Second; at <= beat+c.away; at += time.Second { // the last beat was just before it went away
			silent, _ := Silent(h, t0.Add(at))
			lost = lost || silent
		}
		if lost != c.lost {
			t.Errorf("away for %s: lost %t", c.away, lost)
		}
		if !lost {
			continue
		}
		n := node()
		n.Status.Conditions, _ = Unknown(n, metav1.NewTime(t0))
		taints, _ := Taints(n, metav1.NewTime(t0))
		if n.Status.Conditions[0].Status != corev1.ConditionUnknown || len(taints) != 2 {
			t.Errorf("a lost node: %+v %+v", n.Status.Conditions, taints)
		}
	}
}
