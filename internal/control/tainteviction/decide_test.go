package tainteviction

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// row: CTL-16
func TestDecide(t *testing.T) {
	t0 := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	added := metav1.NewTime(t0)
	now := t0.Add(time.Minute)
	seconds := func(n int64) *int64 { return &n }
	taint := corev1.Taint{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}
	for _, c := range []struct {
		name   string
		taints []corev1.Taint
		tol    []corev1.Toleration
		leave  bool
		at     time.Time
	}{
		{"no toleration: at once", []corev1.Taint{taint}, nil, true, t0},
		{"tolerated for ever", []corev1.Taint{taint}, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, false,
			time.Time{}},
		{"tolerated for 300 s", []corev1.Taint{taint},
			[]corev1.Toleration{{Key: taint.Key, Operator: corev1.TolerationOpExists, Effect: taint.Effect,
				TolerationSeconds: seconds(300)}}, true, t0.Add(300 * time.Second)},
		{"the shortest counts", []corev1.Taint{taint},
			[]corev1.Toleration{{Operator: corev1.TolerationOpExists, TolerationSeconds: seconds(300)},
				{Key: taint.Key, Operator: corev1.TolerationOpExists, TolerationSeconds: seconds(10)}}, true,
			t0.Add(10 * time.Second)},
		{"longer than a duration", []corev1.Taint{taint},
			[]corev1.Toleration{{Operator: corev1.TolerationOpExists, TolerationSeconds: seconds(math.MaxInt64)}}, true,
			t0.Add(math.MaxInt64 / time.Second * time.Second)},
		{"zero seconds: at once", []corev1.Taint{taint},
			[]corev1.Toleration{{Operator: corev1.TolerationOpExists, TolerationSeconds: seconds(0)}}, true, t0},
		{"NoSchedule drives nobody out", []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}, nil, false,
			time.Time{}},
		{"other value", []corev1.Taint{{Key: "a", Value: "x", Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}},
			[]corev1.Toleration{{Key: "a", Value: "y"}}, true, t0},
		{"a toleration of another effect", []corev1.Taint{taint}, []corev1.Toleration{{Key: taint.Key,
			Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}, true, t0},
		{"a toleration of another key", []corev1.Taint{taint},
			[]corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}, true, t0},
		{"the first of two", []corev1.Taint{taint, {Key: "b", Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}},
			[]corev1.Toleration{{Key: taint.Key, Operator: corev1.TolerationOpExists, TolerationSeconds: seconds(300)}},
			true, t0},
		{"a taint without a time that nobody noted counts from now",
			[]corev1.Taint{{Key: "b", Effect: corev1.TaintEffectNoExecute}}, nil, true, now},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := Decide(&corev1.Pod{Spec: corev1.PodSpec{Tolerations: c.tol}}, c.taints, nil, now)
			if v.Evict != c.leave || !v.At.Equal(c.at) {
				t.Fatalf("got %+v, want Evict %v and At %v", v, c.leave, c.at)
			}
		})
	}
}

// A taint without timeAdded counts from when it was first seen, whatever else comes and goes, and
// after a restart from the time in managedFields at which the list was written.
//
// row: CTL-16
func TestTaintsWithoutTimeCountFromWhenTheyWereSeen(t *testing.T) {
	t0 := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }
	mine := corev1.Taint{Key: "mine", Effect: corev1.TaintEffectNoExecute}
	other := corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoExecute}
	fields := func(raw string, sub string, s int) metav1.ManagedFieldsEntry {
		when := metav1.NewTime(at(s))
		return metav1.ManagedFieldsEntry{Manager: "m", Time: &when, Subresource: sub,
			FieldsV1: &metav1.FieldsV1{Raw: []byte(raw)}}
	}
	taints := func(s int) metav1.ManagedFieldsEntry { return fields(`{"f:spec":{"f:taints":{}}}`, "", s) }
	type look struct {
		taints  []corev1.Taint
		managed []metav1.ManagedFieldsEntry
		now     int
		since   int // of mine
	}
	dated := mine
	dated.TimeAdded = &metav1.Time{Time: at(3)}
	changed := mine
	changed.Value = "other"
	for name, steps := range map[string][]look{
		"kept from look to look": {{[]corev1.Taint{mine}, nil, 10, 10},
			{[]corev1.Taint{mine}, nil, 20, 10}},
		"another taint does not begin it anew": {{[]corev1.Taint{mine}, nil, 10, 10},
			{[]corev1.Taint{other, mine}, nil, 20, 10}},
		"another value does not either": {{[]corev1.Taint{mine}, nil, 10, 10},
			{[]corev1.Taint{changed}, nil, 20, 10}},
		"taken away and set again it begins anew": {{[]corev1.Taint{mine}, nil, 10, 10}, {nil, nil, 20, 20},
			{[]corev1.Taint{mine}, nil, 30, 30}},
		"after a restart from when it was written": {
			{[]corev1.Taint{mine}, []metav1.ManagedFieldsEntry{fields(`{"f:metadata":{"f:labels":{}}}`, "", 1),
				taints(5)}, 10, 6}},
		"a clock that is ahead counts for nothing": {{[]corev1.Taint{mine}, []metav1.ManagedFieldsEntry{taints(50)},
			10, 10}, {[]corev1.Taint{mine}, []metav1.ManagedFieldsEntry{taints(50)}, 60, 10}},
		"a later write by others keeps what was seen": {{[]corev1.Taint{mine}, []metav1.ManagedFieldsEntry{taints(5)},
			10, 6}, {[]corev1.Taint{mine, other}, []metav1.ManagedFieldsEntry{taints(20)}, 20, 6}},
		"two managers: the earlier knew it": {
			{[]corev1.Taint{mine}, []metav1.ManagedFieldsEntry{taints(7), taints(5)}, 10, 6}},
		"a subresource does not write taints": {
			{[]corev1.Taint{mine}, []metav1.ManagedFieldsEntry{fields(`{"f:spec":{"f:taints":{}}}`, "status", 1)}, 10,
				10}},
		"its own time counts": {{[]corev1.Taint{dated}, []metav1.ManagedFieldsEntry{taints(1)}, 10, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			var seen TaintTimes
			for i, l := range steps {
				n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{ManagedFields: l.managed},
					Spec: corev1.NodeSpec{Taints: l.taints}}
				seen = RecordTaints(n, seen, at(l.now))
				five := int64(5)
				p := &corev1.Pod{
					Spec: corev1.PodSpec{
						Tolerations: []corev1.Toleration{{Key: "mine", Operator: corev1.TolerationOpExists,
							TolerationSeconds: &five}, {Key: "other", Operator: corev1.TolerationOpExists}}}}
				v := Decide(p, l.taints, seen, at(l.now))
				if v.Evict != (len(l.taints) > 0) || v.Evict && !v.At.Equal(at(l.since+5)) {
					t.Errorf("look %d: %+v, not %v", i, v, at(l.since+5))
				}
			}
		})
	}
}

// A Pod that was bound when its node had the taint already has its seconds from then on, as
// upstream.
//
// row: CTL-16
func TestTolerationSecondsOfAPodThatWasBoundLater(t *testing.T) {
	t0 := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(s int) metav1.Time { return metav1.NewTime(t0.Add(time.Duration(s) * time.Second)) }
	added, five := at(0), int64(5)
	taints := []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}}
	scheduled := func(s int) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
			LastTransitionTime: at(s)}}
	}
	for name, c := range map[string]struct {
		created    int
		conditions []corev1.PodCondition
		leaves     int
	}{
		"bound before the taint":        {-20, scheduled(-10), 5},
		"bound after the taint":         {-20, scheduled(60), 65},
		"made after it with its node":   {60, nil, 65},
		"a clock that is ahead of ours": {60, scheduled(6000), 65},
		"bound before it was made":      {60, scheduled(10), 65},
		"created before it, no event":   {-20, nil, 5},
	} {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(c.created)},
				Status: corev1.PodStatus{Conditions: c.conditions},
				Spec: corev1.PodSpec{
					Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists, TolerationSeconds: &five}}}}
			if v := Decide(p, taints, nil, at(100).Time); !v.Evict || !v.At.Equal(at(c.leaves).Time) {
				t.Errorf("%+v, not %v", v, at(c.leaves))
			}
		})
	}
}
