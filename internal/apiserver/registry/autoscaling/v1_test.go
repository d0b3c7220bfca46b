package autoscaling

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func quantity(s string) *resource.Quantity { q := resource.MustParse(s); return &q }

// TestV1CarriesAllOfV2: an object seen through v1 and written back is what it was.
func TestV1CarriesAllOfV2(t *testing.T) {
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "x",
		Annotations: map[string]string{"mine": "kept"}}}
	h.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "d", APIVersion: "apps/v1"},
		MinReplicas:    new(int32(2)), MaxReplicas: 9,
		Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{},
		Metrics: []autoscalingv2.MetricSpec{
			{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: "m"},
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType,
					AverageValue: quantity("5")},
			}},
			{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{
				DescribedObject: autoscalingv2.CrossVersionObjectReference{Kind: "Service", Name: "s",
					APIVersion: "v1"},
				Metric: autoscalingv2.MetricIdentifier{Name: "m"},
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: quantity("7")},
			}},
			{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: "q",
					Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType,
					AverageValue: quantity("3")},
			}},
			{Type: autoscalingv2.ContainerResourceMetricSourceType,
				ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
					Name: corev1.ResourceMemory, Container: "c",
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType,
						AverageUtilization: new(int32(60))},
				}},
			{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType,
					AverageUtilization: new(int32(50))},
			}},
		},
	}
	defaultAutoscaler(&h.Spec)
	h.Status = autoscalingv2.HorizontalPodAutoscalerStatus{
		CurrentReplicas: 3, DesiredReplicas: 4,
		Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.AbleToScale,
			Status: corev1.ConditionTrue}},
		CurrentMetrics: []autoscalingv2.MetricStatus{{Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{
				Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: new(int32(40)),
					AverageValue: quantity("400m")},
			}}},
	}
	var old autoscalingv1.HorizontalPodAutoscaler
	if err := toV1(h.DeepCopy(), &old); err != nil {
		t.Fatal(err)
	}
	if *old.Spec.TargetCPUUtilizationPercentage != 50 || *old.Status.CurrentCPUUtilizationPercentage != 40 ||
		len(old.Annotations) != 5 {
		t.Errorf("got %v, want TargetCPUUtilizationPercentage 50, CurrentCPUUtilizationPercentage 40 and 5 in "+
			"Annotations", old)
	}
	var back autoscalingv2.HorizontalPodAutoscaler
	if err := fromV1(&old, &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(h, &back); d != "" {
		t.Errorf("the two differ (-want +got):\n%s", d)
	}
}

// An annotation that cannot be read says nothing, and goes.
func TestBrokenAnnotationIsDropped(t *testing.T) {
	old := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		metricsNote: "{", behaviorNote: `{}`, conditionsNote: `[{"type": 5}]`, "own": "x"}}}
	var h autoscalingv2.HorizontalPodAutoscaler
	if err := fromV1(old, &h); err != nil {
		t.Fatal(err)
	}
	if h.Spec.Behavior != nil || len(h.Status.Conditions) != 0 || len(h.Spec.Metrics) != 1 || len(h.Annotations) != 1 {
		t.Errorf("got %+v, want no behavior, no condition, the default metric and the annotation own", h)
	}
}

// The annotation names fields as upstream's internal type does.
func TestBehaviorAnnotation(t *testing.T) {
	h := &autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{
			Policies: []autoscalingv2.HPAScalingPolicy{{Type: "Pods", Value: 1, PeriodSeconds: 60}}}}}}
	var old autoscalingv1.HorizontalPodAutoscaler
	if err := toV1(h, &old); err != nil {
		t.Fatal(err)
	}
	const want = `{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":null,"Policies":` +
		`[{"Type":"Pods","Value":1,"PeriodSeconds":60}],"Tolerance":null}}`
	if got := old.Annotations[behaviorNote]; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
