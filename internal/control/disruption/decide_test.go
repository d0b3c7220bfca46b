package disruption

import (
	"errors"
	"strings"
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
		{"minAvailable percent of the controller's wish", look(budget("50%", ""), 4, 4, 9), 9, 5, 0},
		{"minAvailable percent, more there than wished", look(budget("50%", ""), 6, 6, 4), 4, 2, 4},
		{"maxUnavailable percent of the controller's wish", look(budget("", "25%"), 4, 4, 8), 8, 6, 0},
		{"one hundred percent", look(budget("100%", ""), 3, 3, 3), 3, 3, 0},
		{"zero may be unavailable", look(budget("", "0"), 3, 3, 3), 3, 3, 0},
		{"all may be unavailable", look(budget("", "100%"), 3, 3, 3), 3, 0, 3},
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

// row: PDB-09
func TestTwoControllersAddUpAndOneIsNone(t *testing.T) {
	in := look(budget("", "1"), 3, 3, 2)
	in.Scales = map[string]Scale{"a": {"x", 2}, "b": {"y", 3}}
	r, err := ComputeStatus(in)
	if err != nil || r.Status.ExpectedPods != 5 || len(r.Unmanaged) != 1 || r.Unmanaged[0].Name != "c" {
		t.Fatalf("got %+v %v, want no error, ExpectedPods 5, 1 in Unmanaged and Name c", r, err)
	}
}

// row: PDB-08
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

// row: PDB-13
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

// An evicted Pod is taken off for two minutes; the next look is after the first of them.
//
// row: PDB-08
func TestHowLongAnEvictionCounts(t *testing.T) {
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(t0.Add(-d)) }
	for name, c := range map[string]struct {
		noted   map[string]metav1.Time
		healthy int32
		stayed  int
		again   time.Duration
	}{
		"none":            {nil, 3, 0, 0},
		"one, just now":   {map[string]metav1.Time{"a": ago(0)}, 2, 0, 2*time.Minute + time.Millisecond},
		"for two minutes": {map[string]metav1.Time{"a": ago(2 * time.Minute)}, 2, 0, time.Millisecond},
		"for longer":      {map[string]metav1.Time{"a": ago(2*time.Minute + 1)}, 3, 1, 0},
		"the first of two": {map[string]metav1.Time{"a": ago(100 * time.Second), "b": ago(time.Minute)}, 1, 0,
			20*time.Second + time.Millisecond},
		"the second of two": {map[string]metav1.Time{"a": ago(time.Minute), "b": ago(100 * time.Second)}, 1, 0,
			20*time.Second + time.Millisecond},
		"of another budget": {map[string]metav1.Time{"x": ago(0)}, 3, 0, 0},
	} {
		in := look(budget("1", ""), 3, 3, 3)
		in.Budget.Status.DisruptedPods = c.noted
		r, err := ComputeStatus(in)
		if err != nil || r.Status.CurrentHealthy != c.healthy || len(r.NotDeleted) != c.stayed ||
			r.RequeueAfter != c.again ||
			len(r.Status.DisruptedPods) != 3-int(c.healthy) || (r.Status.DisruptedPods == nil) != (c.noted == nil) {
			t.Errorf("%s: %+v, again in %v, %d stayed, %v, want %d healthy, again in %v, %d", name, r.Status,
				r.RequeueAfter,
				len(r.NotDeleted), err, c.healthy, c.again, c.stayed)
		}
	}
}

// A Pod is healthy by its Ready condition alone, while it is not going.
//
// row: PDB-10
func TestHealthyPods(t *testing.T) {
	conditions := func(all ...corev1.PodCondition) *corev1.Pod {
		p := pod("a", true)
		p.Status.Conditions = all
		return p
	}
	ready, unready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse}
	other := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	going := conditions(ready)
	going.DeletionTimestamp = &metav1.Time{Time: t0}
	for name, c := range map[string]struct {
		p    *corev1.Pod
		want int32
	}{
		"ready":             {conditions(ready), 1},
		"not ready":         {conditions(unready), 0},
		"nobody says":       {conditions(), 0},
		"another condition": {conditions(other), 0},
		"the second one":    {conditions(other, ready), 1},
		"another after it":  {conditions(unready, other), 0},
		"going":             {going, 0},
	} {
		r, err := ComputeStatus(In{Budget: budget("1", ""), Pods: []*corev1.Pod{c.p}, Now: t0})
		if err != nil || r.Status.CurrentHealthy != c.want {
			t.Errorf("%s: %d healthy, %v, want %d", name, r.Status.CurrentHealthy, err, c.want)
		}
	}
}

// What cannot be read is an error that names the field, and the status that says so keeps what was
// counted before.
//
// row: PDB-07
func TestBudgetsThatCannotBeRead(t *testing.T) {
	for want, b := range map[string]*policyv1.PodDisruptionBudget{"spec.minAvailable: ": budget("some", ""),
		"spec.maxUnavailable: ": budget("", "some")} {
		in := look(b, 2, 2, 2)
		r, err := ComputeStatus(in)
		if err == nil || !strings.HasPrefix(err.Error(), want) || len(r.Status.Conditions) != 0 {
			t.Errorf("got %+v, %v, want an error that begins with %q", r, err, want)
			continue
		}
		in.Budget.Status.CurrentHealthy, in.Budget.Status.ObservedGeneration = 2, 6
		s := FailureStatus(in, err)
		if c := s.Conditions[0]; s.CurrentHealthy != 2 || c.Status != metav1.ConditionFalse ||
			c.ObservedGeneration != 6 ||
			c.Type != policyv1.DisruptionAllowedCondition || !c.LastTransitionTime.Time.Equal(t0) {
			t.Errorf("got %+v, want False of generation 6 since %v, 2 healthy", s, t0)
		}
		if len(in.Budget.Status.Conditions) != 0 {
			t.Error("the budget that was given has changed")
		}
	}
	for want, b := range map[bool]*policyv1.PodDisruptionBudget{true: budget("10%", ""), false: budget("1", "")} {
		if NeedsScales(b) != want || !NeedsScales(budget("", "1")) || NeedsScales(budget("", "")) {
			t.Errorf("%v needs scales %t, want %t", b.Spec, NeedsScales(b), want)
		}
	}
}

// row: PDB-13
func TestWhoseDisruptionIsStale(t *testing.T) {
	marked := func(status corev1.ConditionStatus, phase corev1.PodPhase) *corev1.Pod {
		p := pod("p", true)
		p.Status.Phase = phase
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget,
			Status: status,
			Reason: "EvictionByEvictionAPI", LastTransitionTime: metav1.NewTime(t0.Add(-2 * time.Minute))})
		return p
	}
	for name, c := range map[string]struct {
		p    *corev1.Pod
		want bool
	}{
		"runs":           {marked(corev1.ConditionTrue, corev1.PodRunning), true},
		"waits":          {marked(corev1.ConditionTrue, corev1.PodPending), true},
		"has ended":      {marked(corev1.ConditionTrue, corev1.PodSucceeded), false},
		"has failed":     {marked(corev1.ConditionTrue, corev1.PodFailed), false},
		"is reset":       {marked(corev1.ConditionFalse, corev1.PodRunning), false},
		"was never told": {pod("p", true), false},
	} {
		if stale, in := StaleDisruption(c.p, t0); stale != c.want || in != 0 {
			t.Errorf("%s: got %t in %v, want %t at once", name, stale, in, c.want)
		}
	}
	s := WithoutDisruptionTarget(marked(corev1.ConditionTrue, corev1.PodRunning), t0)
	if c := s.Conditions[1]; !c.LastTransitionTime.Time.Equal(t0) || c.ObservedGeneration != 4 ||
		c.Type != corev1.DisruptionTarget {
		t.Errorf("got %+v, want a condition of generation 4 since %v", c, t0)
	}
}
