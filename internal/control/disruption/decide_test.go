package disruption

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/test/wrappers"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func pod(name string, isReady bool) *corev1.Pod {
	return wrappers.MakePod().Name(name).Generation(4).Phase(corev1.PodRunning).Ready(isReady).Obj()
}

func budget(minAvailable, maxUnavailable string) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "b", Generation: 7}}
	if minAvailable != "" {
		v := intstr.Parse(minAvailable)
		b.Spec.MinAvailable = &v
	}
	if maxUnavailable != "" {
		v := intstr.Parse(maxUnavailable)
		b.Spec.MaxUnavailable = &v
	}
	return b
}

// look has n Pods of one controller that wants replicas, the first healthy of them ready.
func look(b *policyv1.PodDisruptionBudget, n, healthy int, replicas int32) In {
	in := In{Budget: b, Scales: map[string]Scale{}, Now: t0}
	for i := range n {
		p := pod(string(rune('a'+i)), i < healthy)
		in.Pods = append(in.Pods, p)
		in.Scales[p.Name] = Scale{"owner", replicas}
	}
	return in
}

// row: PDB-07
// row: PDB-09
func TestNumbersAndPercents(t *testing.T) {
	for _, c := range []struct {
		name                       string
		in                         In
		expected, desired, allowed int32
	}{
		{"minAvailable counts what is there", look(budget("2", ""), 3, 3, 10), 3, 2, 1},
		{"minAvailable more than there is", look(budget("5", ""), 3, 3, 3), 3, 5, 0},
		{"maxUnavailable of the controller's wish", look(budget("", "1"), 2, 2, 4), 4, 3, 0},
		{"maxUnavailable with all there", look(budget("", "1"), 4, 4, 4), 4, 3, 1},
		{"maxUnavailable of all", look(budget("", "9"), 3, 3, 3), 3, 0, 3},
		{"minAvailable percent rounds up", look(budget("50%", ""), 3, 3, 3), 3, 2, 1},
		{"maxUnavailable percent rounds up", look(budget("", "30%"), 7, 7, 7), 7, 4, 3},
		{"sick Pods do not count", look(budget("2", ""), 3, 2, 3), 3, 2, 0},
		{"no Pods, nothing allowed", look(budget("0", ""), 0, 0, 0), 0, 0, 0},
		{"five, four wanted", look(budget("4", ""), 5, 5, 5), 5, 4, 1},
		{"neither says nothing", look(budget("", ""), 2, 2, 2), 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := ComputeStatus(c.in)
			if err != nil {
				t.Fatal(err)
			}
			s := r.Status
			if s.ExpectedPods != c.expected || s.DesiredHealthy != c.desired || s.DisruptionsAllowed != c.allowed ||
				s.ObservedGeneration != 7 {
				t.Errorf("expected %d desired %d allowed %d, want %d %d %d", s.ExpectedPods, s.DesiredHealthy,
					s.DisruptionsAllowed, c.expected, c.desired, c.allowed)
			}
			want := policyv1.InsufficientPodsReason
			if c.allowed > 0 {
				want = policyv1.SufficientPodsReason
			}
			if len(s.Conditions) != 1 || s.Conditions[0].Reason != want ||
				(s.Conditions[0].Status == metav1.ConditionTrue) != (c.allowed > 0) {
				t.Errorf("condition %+v, want reason %s", s.Conditions, want)
			}
		})
	}
}

func TestTwoControllersAddUpAndOneIsNone(t *testing.T) {
	in := look(budget("", "1"), 3, 3, 2)
	in.Scales = map[string]Scale{"a": {"x", 2}, "b": {"y", 3}}
	r, err := ComputeStatus(in)
	if err != nil || r.Status.ExpectedPods != 5 || len(r.Unmanaged) != 1 || r.Unmanaged[0].Name != "c" {
		t.Fatalf("got %+v %v, want no error, ExpectedPods 5, 1 in Unmanaged and Name c", r, err)
	}
}

func TestAnEvictedPodIsTakenOffUntilItEndsOrStays(t *testing.T) {
	in := look(budget("1", ""), 3, 3, 3)
	in.Budget.Status.DisruptedPods = map[string]metav1.Time{"a": metav1.NewTime(t0.Add(-time.Minute)),
		"b": metav1.NewTime(t0.Add(-3 * time.Minute)), "gone": metav1.NewTime(t0)}
	r, err := ComputeStatus(in)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Status.DisruptedPods) != 1 || r.Status.CurrentHealthy != 2 || len(r.NotDeleted) != 1 ||
		r.NotDeleted[0].Name != "b" {
		t.Errorf("%+v stayed %v", r.Status, r.NotDeleted)
	}
	if r.RequeueAfter <= 59*time.Second || r.RequeueAfter > 61*time.Second {
		t.Errorf("looks again in %s, want a minute", r.RequeueAfter)
	}
	now := metav1.NewTime(t0)
	in.Pods[0].DeletionTimestamp = &now
	if r, _ = ComputeStatus(in); len(r.Status.DisruptedPods) != 0 || r.Status.CurrentHealthy != 2 {
		t.Errorf("an ending Pod is still noted or healthy: %+v", r.Status)
	}
}

func TestFailureAllowsNothingAndSaysWhy(t *testing.T) {
	in := look(budget("", "1"), 2, 2, 2)
	in.Budget.Status.DisruptionsAllowed = 1
	s := FailureStatus(in, errors.New(`found no controllers for pod "a"`))
	if s.DisruptionsAllowed != 0 || s.Conditions[0].Reason != policyv1.SyncFailedReason ||
		s.Conditions[0].Message != `found no controllers for pod "a"` {
		t.Fatalf(`got %+v, want DisruptionsAllowed 0, Reason SyncFailedReason and Message 'found no controllers for `+
			`pod "a"'`, s)
	}
}

func TestUnchangedStatusIsNotWritten(t *testing.T) {
	in := look(budget("1", ""), 2, 2, 2)
	r, _ := ComputeStatus(in)
	in.Budget.Status = r.Status
	in.Now = t0.Add(time.Hour)
	if again, _ := ComputeStatus(in); !Same(r.Status, again.Status) {
		t.Fatalf("got %+v, want Same(r.Status, again.Status) true\n%+v", r.Status, again.Status)
	}
}

func TestStaleDisruptionTarget(t *testing.T) {
	marked := func(reason string, age time.Duration) *corev1.Pod {
		p := pod("p", true)
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget,
			Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(t0.Add(-age))})
		return p
	}
	if stale, left := StaleDisruption(marked("EvictionByEvictionAPI", 30*time.Second), t0); !stale ||
		left != 90*time.Second {
		t.Errorf("%v %s, want 90s", stale, left)
	}
	if stale, left := StaleDisruption(marked("PreemptionByScheduler", time.Hour), t0); !stale || left != 0 {
		t.Errorf("%v %s, want at once", stale, left)
	}
	if stale, _ := StaleDisruption(marked(corev1.PodReasonTerminationByKubelet, time.Hour), t0); stale {
		t.Error("the kubelet's announcement is taken back")
	}
	ending := marked("EvictionByEvictionAPI", time.Hour)
	ending.DeletionTimestamp = &metav1.Time{Time: t0}
	if stale, _ := StaleDisruption(ending, t0); stale {
		t.Error("an ending Pod's condition is taken back")
	}
	if s := WithoutDisruptionTarget(marked("EvictionByEvictionAPI", time.Hour),
		t0); s.Conditions[1].Status != corev1.ConditionFalse || s.Conditions[1].Reason != "" ||
		s.Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("got %+v, want Status ConditionFalse, Reason empty and Status ConditionTrue", s.Conditions)
	}
}
