package apiserver

import (
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/features"
)

// An autoscaler may scale to zero, unless the gate HPAScaleToZero is off.
func TestScalingToZeroHasAGate(t *testing.T) {
	zero, one := int32(0), resource.MustParse("1")
	target := autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: &zero, MaxReplicas: 3, ScaleTargetRef: target,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType,
				External: &autoscalingv2.ExternalMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: "queue"},
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: &one}}}}}}
	_, c := shared(t)
	if _, err := c.AutoscalingV2().HorizontalPodAutoscalers(newNamespace(t, c)).Create(t.Context(), h,
		metav1.CreateOptions{}); err != nil {
		t.Errorf("with the gate: got %v, want an autoscaler that scales to zero", err)
	}
	config := testConfig(t.TempDir())
	config.Features = features.Features{NoHPAScaleToZero: true}
	s, stop, err := launch(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stop() })
	c = kubernetes.NewForConfigOrDie(s.InProcess(admin()))
	ns := newNamespace(t, c)
	const want = "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"
	_, err = c.AutoscalingV2().HorizontalPodAutoscalers(ns).Create(t.Context(), h, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("without the gate: got %v, want %s", err, want)
	}
	minimum := int32(1)
	old := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{MinReplicas: &minimum, MaxReplicas: 3,
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(target)}}
	old, err = c.AutoscalingV1().HorizontalPodAutoscalers(ns).Create(t.Context(), old, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	old.Spec.MinReplicas = &zero
	_, err = c.AutoscalingV1().HorizontalPodAutoscalers(ns).Update(t.Context(), old, metav1.UpdateOptions{})
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("without the gate, an update: got %v, want %s", err, want)
	}
}
