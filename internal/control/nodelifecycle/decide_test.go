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
func TestHeartbeatAgeIsMeasuredByTheLocalClock(t *testing.T) {
	h := UpdateHealth(NodeHealth{}, Heartbeat{Renewed: "beat-1", StatusPosted: true}, t0)
	// the same heartbeat again is no report
	h = UpdateHealth(h, Heartbeat{Renewed: "beat-1", StatusPosted: true}, t0.Add(30*time.Second))
	if silent, again := IsUnreachable(h, MonitorGracePeriod, t0.Add(30*time.Second)); silent ||
		again != 20*time.Second {
		t.Fatalf("got %v, %v, want silent false and again %v", silent, again, 20*time.Second)
	}
	if silent, _ := IsUnreachable(h, MonitorGracePeriod, t0.Add(MonitorGracePeriod)); !silent {
		t.Fatal("silent for the whole grace period and not noticed")
	}
	h = UpdateHealth(h, Heartbeat{Renewed: "beat-2", StatusPosted: true}, t0.Add(49*time.Second))
	if silent, _ := IsUnreachable(h, MonitorGracePeriod, t0.Add(MonitorGracePeriod)); silent {
		t.Fatal("a new beat is a sign of life")
	}
}

// row: CTL-15
func TestUnknownConditions(t *testing.T) {
	n := &corev1.Node{
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
				Reason: "KubeletReady"}}}}
	got, changed := UnknownConditions(n, metav1.NewTime(t0))
	if !changed || len(got) != 4 || got[0].Status != corev1.ConditionUnknown || got[0].Reason != "NodeStatusUnknown" ||
		got[0].Message != "Kubelet stopped posting node status." || got[1].Reason != "NodeStatusNeverUpdated" {
		t.Fatalf(`got %+v, want changed true, 4 in got, Status ConditionUnknown, Reason NodeStatusUnknown, Message `+
			`"Kubelet stopped posting node status." and Reason NodeStatusNeverUpdated`, got)
	}
	n.Status.Conditions = got
	if _, changed := UnknownConditions(n, metav1.NewTime(t0)); changed {
		t.Fatal("a second look changes again")
	}
	n.Status.Conditions = got[:3]
	if again, changed := UnknownConditions(n, metav1.NewTime(t0)); !changed || len(again) != 4 {
		t.Errorf("with one condition that was never reported: got %+v (changed %t), want 4, changed", again, changed)
	}
}

// row: CTL-16
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
	n := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{own}},
		Status: corev1.NodeStatus{Conditions: ready(corev1.ConditionUnknown)}}
	got, changed := Taints(n, metav1.NewTime(t0), true)
	want := []string{"dedicated:NoSchedule", "node.kubernetes.io/unreachable:NoSchedule",
		"node.kubernetes.io/unreachable:NoExecute"}
	if diff := cmp.Diff(want, keys(got)); diff != "" || !changed {
		t.Fatalf("the two differ (-want +got):\n%s", diff)
	}
	n.Spec.Taints = got
	if _, changed := Taints(n, metav1.NewTime(t0), true); changed {
		t.Fatal("a second look changes again")
	}
	n.Status.Conditions, n.Spec.Unschedulable = ready(corev1.ConditionTrue), true
	got, _ = Taints(n, metav1.NewTime(t0), true)
	if diff := cmp.Diff([]string{"dedicated:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule"},
		keys(got)); diff != "" {
		t.Fatalf("the two differ (-want +got):\n%s", diff)
	}
}

// A node that reports that it is not ready, and one that has reported nothing, repel Pods and evict
// them.
//
// row: CTL-16
func TestTaintsOfANodeThatIsNotReady(t *testing.T) {
	for name, conditions := range map[string][]corev1.NodeCondition{
		"not ready": {{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}, "nothing reported": nil} {
		got := ""
		taints, _ := Taints(&corev1.Node{Status: corev1.NodeStatus{Conditions: conditions}}, metav1.NewTime(t0), true)
		for _, taint := range taints {
			got += taint.ToString() + " "
		}
		if want := "node.kubernetes.io/not-ready:NoSchedule node.kubernetes.io/not-ready:NoExecute "; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// The NoSchedule taint is added at once; the NoExecute taint waits for its turn, and is not removed
// while it waits.
//
// row: CTL-16
func TestNoExecuteTaintsAreRateLimited(t *testing.T) {
	n := &corev1.Node{
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}}}
	effects := func(drive bool) (out []corev1.TaintEffect) {
		taints, _ := Taints(n, metav1.NewTime(t0), drive)
		for _, x := range taints {
			out = append(out, x.Effect)
		}
		n.Spec.Taints = taints
		return out
	}
	if diff := cmp.Diff([]corev1.TaintEffect{corev1.TaintEffectNoSchedule}, effects(false)); diff != "" {
		t.Fatalf("the two differ (-want +got):\n%s", diff)
	}
	if wanted, done := OutOfServiceDrain(n); !wanted || done {
		t.Fatal("Pods are to be driven out, and are not yet:", wanted, done)
	}
	if diff := cmp.Diff([]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute},
		effects(true)); diff != "" {
		t.Fatalf("the two differ (-want +got):\n%s", diff)
	}
	if got := effects(false); len(got) != 2 {
		t.Fatal("a taint that is there was taken back:", got)
	}
	// it reports, and is not ready: its Pods are being evicted already
	n.Status.Conditions[0].Status = corev1.ConditionFalse
	if wanted, done := OutOfServiceDrain(n); !wanted || !done {
		t.Fatalf("got %v, %v, want wanted true and done true", wanted, done)
	}
	n.Status.Conditions[0].Status = corev1.ConditionTrue
	if wanted, _ := OutOfServiceDrain(n); wanted || len(effects(true)) != 0 {
		t.Fatal("a ready node keeps taints", n.Spec.Taints)
	}
}

// A zone that loses many nodes at once is drained slowly or not at all, and if nothing is ready
// there are no evictions
// (https://kubernetes.io/docs/concepts/architecture/nodes/#rate-limits-on-eviction).
//
// row: CTL-16
func TestEvictionRatesOfZones(t *testing.T) {
	for name, c := range map[string]struct {
		zones map[string]Zone
		want  float64
	}{
		"one of two":                         {map[string]Zone{"a": {1, 1}}, evictionRate},
		"two of three are too few to decide": {map[string]Zone{"a": {1, 2}}, evictionRate},
		"54 in a hundred":                    {map[string]Zone{"a": {46, 54}}, evictionRate},
		"55 in a hundred":                    {map[string]Zone{"a": {45, 55}}, secondaryEvictionRate},
		"most of a small zone":               {map[string]Zone{"a": {10, 40}}, 0},
		"most of a zone just large":          {map[string]Zone{"a": {10, 41}}, secondaryEvictionRate},
		"a whole zone, another one lives":    {map[string]Zone{"a": {0, 9}, "b": {1, 8}}, evictionRate},
		"everything":                         {map[string]Zone{"a": {0, 9}, "b": {0, 1}}, 0},
	} {
		if got := EvictionRate(c.zones, "a"); got != c.want {
			t.Errorf("%s: %v a second, want %v", name, got, c.want)
		}
	}
	labelled := func(zone string, s corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelTopologyZone: zone}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: s}}}}
	}
	nodes := []*corev1.Node{labelled("a", corev1.ConditionTrue), labelled("a", corev1.ConditionUnknown),
		labelled("b", corev1.ConditionFalse)}
	nodes = append(nodes, &corev1.Node{ObjectMeta: nodes[2].ObjectMeta}) // has not reported yet
	apart := labelled("a", corev1.ConditionFalse)
	apart.Labels[excludeDisruptionLabel] = ""
	nodes = append(nodes, apart)
	if diff := cmp.Diff(map[string]Zone{ZoneOf(nodes[0]): {1, 1}, ZoneOf(nodes[2]): {0, 2}}, Zones(nodes)); diff != "" {
		t.Errorf("the two differ (-want +got):\n%s", diff)
	}
}

func TestEvictionOrder(t *testing.T) {
	for name, c := range map[string]struct {
		since, last time.Duration // ago; -1: never
		rate        float64
		may         bool
		again       time.Duration
	}{
		"just lost":                     {0, -1, evictionRate, false, restartGracePeriod},
		"the first of its zone":         {restartGracePeriod, -1, evictionRate, true, 0},
		"the first though all are lost": {restartGracePeriod, -1, 0, true, 0},
		"the second waits for its turn": {4 * time.Second, 3 * time.Second, evictionRate, false, 7 * time.Second},
		"its turn":                      {12 * time.Second, 10 * time.Second, evictionRate, true, 0},
		"slowly": {12 * time.Second, 10 * time.Second, secondaryEvictionRate, false,
			90 * time.Second},
		"a zone left alone is looked at": {time.Hour, time.Hour, 0, false, nodeMonitorPeriod},
	} {
		last := time.Time{}
		if c.last >= 0 {
			last = t0.Add(-c.last)
		}
		if may, again := EvictionTurn(t0.Add(-c.since), last, c.rate, t0); may != c.may || again != c.again {
			t.Errorf("%s: %v, again in %s", name, may, again)
		}
	}
}

// A kubelet that is away for five seconds leaves its node ready. If it is away for longer than the
// grace period, Ready becomes Unknown and the taints follow.
//
// row: KSL-10
// row: CTL-15
func TestShortAbsenceLeavesTheNodeReady(t *testing.T) {
	const renewed = 10 * time.Second // how often a kubelet renews its lease
	node := func() *corev1.Node {
		return &corev1.Node{
			Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	}
	for _, c := range []struct {
		away time.Duration
		lost bool
	}{{5 * time.Second, false}, {30 * time.Second, false}, {MonitorGracePeriod + renewed, true}} {
		h, lost := UpdateHealth(NodeHealth{}, Heartbeat{Renewed: "1", StatusPosted: true}, t0), false
		for at := time.Second; at <= renewed+c.away; at += time.Second { // the last renewal was just before it went
			silent, _ := IsUnreachable(h, MonitorGracePeriod, t0.Add(at))
			lost = lost || silent
		}
		if lost != c.lost {
			t.Errorf("away for %s: lost %t", c.away, lost)
		}
		if !lost {
			continue
		}
		n := node()
		n.Status.Conditions, _ = UnknownConditions(n, metav1.NewTime(t0))
		taints, _ := Taints(n, metav1.NewTime(t0), true)
		if n.Status.Conditions[0].Status != corev1.ConditionUnknown || len(taints) != 2 {
			t.Errorf("a lost node: %+v %+v", n.Status.Conditions, taints)
		}
	}
}

// A node that never reported has its minute from its creation, not from the start of the
// controllers.
//
// row: CTL-15
func TestANodeThatNeverReportedCountsFromItsCreation(t *testing.T) {
	t0 := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name    string
		renewed string
		posted  bool
		made    time.Time
		silent  bool
	}{
		{"made long ago", "", false, t0.Add(-time.Hour), true},
		{"made half a minute ago", "", false, t0.Add(-30 * time.Second), false},
		{"made by a clock ahead of ours", "", false, t0.Add(time.Hour), false},
		{"made long ago, with a lease", "lease", false, t0.Add(-time.Hour), false},
		{"made long ago, with a status", "beat", true, t0.Add(-time.Hour), false},
	} {
		h := UpdateHealth(NodeHealth{}, Heartbeat{c.renewed, c.posted, c.made}, t0)
		if silent, _ := IsUnreachable(h, MonitorGracePeriod, t0); silent != c.silent {
			t.Errorf("%s: silent %v", c.name, silent)
		}
		if again := UpdateHealth(h, Heartbeat{c.renewed, c.posted, c.made}, t0.Add(time.Second)); again.ProbeTime !=
			h.ProbeTime {
			t.Errorf("%s: the next look counts from %v, not %v", c.name, again.ProbeTime, h.ProbeTime)
		}
	}
}
