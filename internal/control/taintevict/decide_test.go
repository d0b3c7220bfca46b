package taintevict

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// row: CTL-16
func TestJudge(t *testing.T) {
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
		{"tolerated for ever", []corev1.Taint{taint}, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, false, time.Time{}},
		{"tolerated for 300 s", []corev1.Taint{taint}, []corev1.Toleration{{Key: taint.Key, Operator: corev1.TolerationOpExists, Effect: taint.Effect, TolerationSeconds: seconds(300)}}, true, t0.Add(300 * time.Second)},
		{"the shortest counts", []corev1.Taint{taint}, []corev1.Toleration{{Operator: corev1.TolerationOpExists, TolerationSeconds: seconds(300)}, {Key: taint.Key, Operator: corev1.TolerationOpExists, TolerationSeconds: seconds(10)}}, true, t0.Add(10 * time.Second)},
		{"longer than a duration", []corev1.Taint{taint}, []corev1.Toleration{{Operator: corev1.TolerationOpExists, TolerationSeconds: seconds(math.MaxInt64)}}, true, t0.Add(math.MaxInt64 / time.Second * time.Second)},
		{"zero seconds: at once", []corev1.Taint{taint}, []corev1.Toleration{{Operator: corev1.TolerationOpExists, TolerationSeconds: seconds(0)}}, true, t0},
		{"NoSchedule drives nobody out", []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}, nil, false, time.Time{}},
		{"other value", []corev1.Taint{{Key: "a", Value: "x", Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}}, []corev1.Toleration{{Key: "a", Value: "y"}}, true, t0},
		{"the first of two", []corev1.Taint{taint, {Key: "b", Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}}, []corev1.Toleration{{Key: taint.Key, Operator: corev1.TolerationOpExists, TolerationSeconds: seconds(300)}}, true, t0},
		{"a taint without a time counts from now", []corev1.Taint{{Key: "b", Effect: corev1.TaintEffectNoExecute}}, nil, true, now},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := Judge(&corev1.Pod{Spec: corev1.PodSpec{Tolerations: c.tol}}, c.taints, now)
			if v.Leave != c.leave || !v.At.Equal(c.at) {
				t.Fatalf("%+v", v)
			}
		})
	}
}
