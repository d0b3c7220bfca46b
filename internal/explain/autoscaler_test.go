package explain

import (
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An autoscaler that works is answered with what it scales to, by which figures, and what holds it.
func TestWhyAnAutoscalerScales(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	condition := func(kind autoscalingv2.HorizontalPodAutoscalerConditionType, reason,
		message string) autoscalingv2.HorizontalPodAutoscalerCondition {
		return autoscalingv2.HorizontalPodAutoscalerCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason,
			Message: message}
	}
	cpu := func(percent int32) autoscalingv2.MetricStatus {
		return autoscalingv2.MetricStatus{Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{Name: "cpu",
				Current: autoscalingv2.MetricValueStatus{AverageUtilization: &percent}}}
	}
	for name, c := range map[string]struct {
		change func(*autoscalingv2.HorizontalPodAutoscaler)
		events []corev1.Event
		want   []string
	}{
		"holds": {func(*autoscalingv2.HorizontalPodAutoscaler) {}, nil, []string{
			"It keeps Deployment web at 2 replicas (within 1 to 5): cpu is at 48% of the requests, the " +
				"target is 50%."}},
		"scales": {func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Status.DesiredReplicas, h.Status.CurrentMetrics = 4, []autoscalingv2.MetricStatus{cpu(98)}
		}, nil, []string{
			"It scales Deployment web from 2 to 4 replicas (within 1 to 5): cpu is at 98% of the requests"}},
		"holds back": {func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Status.Conditions = append(h.Status.Conditions, condition(autoscalingv2.AbleToScale,
				"ScaleDownStabilized", "recent recommendations were higher"))
		}, nil, []string{"AbleToScale (ScaleDownStabilized): recent recommendations were higher"}},
		"has scaled": {func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Status.LastScaleTime = &metav1.Time{Time: now.Add(-40 * time.Second)}
		}, []corev1.Event{{Reason: "SuccessfulRescale", Message: "New size: 2; reason: All metrics below target",
			LastTimestamp: metav1.NewTime(now.Add(-40 * time.Second))}},
			[]string{"it last scaled 40s ago: New size: 2; reason: All metrics below target"}},
		"within the tolerance": {func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Status.CurrentMetrics = []autoscalingv2.MetricStatus{cpu(54)}
		}, nil, []string{"8% off the target is within the tolerance of 10%: the count stays"}},
		"outside of a tolerance of its own": {func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscalingv2.HPAScalingRules{
				Tolerance: resource.NewMilliQuantity(50, resource.DecimalSI)}}
			h.Status.CurrentMetrics = []autoscalingv2.MetricStatus{cpu(54)}
		}, nil, []string{"count as idle while it would scale up"}},
		"a Pod without figures": {func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Status.CurrentMetrics = []autoscalingv2.MetricStatus{cpu(90)}
		}, nil, []string{"Pods that are not ready or have no figures (1 of 2 are not ready) count as idle while it " +
			"would scale up"}},
		"one less is too few": {func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Status.CurrentMetrics = []autoscalingv2.MetricStatus{cpu(30)}
		}, nil, []string{"one replica less would be above the target: 2 at the target do what 2 do now"}},
		"one less would do": {func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Status.CurrentMetrics = []autoscalingv2.MetricStatus{cpu(20)}
		}, nil, []string{"count as using their whole request while it would scale down"}},
		"by the length of a queue": {func(h *autoscalingv2.HorizontalPodAutoscaler) {
			queue := autoscalingv2.MetricIdentifier{Name: "queue"}
			h.Spec.Metrics = append(h.Spec.Metrics, autoscalingv2.MetricSpec{
				External: &autoscalingv2.ExternalMetricSource{Metric: queue,
					Target: autoscalingv2.MetricTarget{AverageValue: resource.NewQuantity(30, resource.DecimalSI)}}})
			h.Status.CurrentMetrics = append(h.Status.CurrentMetrics, autoscalingv2.MetricStatus{
				External: &autoscalingv2.ExternalMetricStatus{Metric: queue, Current: autoscalingv2.MetricValueStatus{
					AverageValue: resource.NewQuantity(12, resource.DecimalSI)}}})
		}, nil, []string{"; queue is 12 for each Pod, the target is 30."}},
	} {
		h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 5,
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "web"},
				Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType,
					Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu", Target: autoscalingv2.MetricTarget{
						Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(50))}}}}},
			Status: autoscalingv2.HorizontalPodAutoscalerStatus{CurrentReplicas: 2, DesiredReplicas: 2,
				CurrentMetrics: []autoscalingv2.MetricStatus{cpu(48)}}}
		h.Status.Conditions = append(h.Status.Conditions, condition(autoscalingv2.ScalingActive,
			"ValidMetricFound", ""))
		c.change(h)
		ready, not := &corev1.Pod{}, &corev1.Pod{}
		ready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		a := WhyObject(Subject{Now: now, Kind: "hpa", Namespace: "default", Name: "web", Object: h, Events: c.events,
			Pods: []*corev1.Pod{ready, not}})
		got := a.Cause + "\n" + strings.Join(a.Facts, "\n")
		for _, want := range c.want {
			if a.State != "well" || !strings.Contains(got, want) {
				t.Errorf("%s: got %s: %s\nwant %q", name, a.State, got, want)
			}
		}
	}
}
