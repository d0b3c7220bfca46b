package plain

import (
	"fmt"
	"strconv"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

// Autoscaling are the rows of autoscaling/v2.
func Autoscaling() []kind.Kind {
	k := kind.Kind{
		Group: autoscalingv2.GroupName, Version: "v2", Resource: "horizontalpodautoscalers", Singular: "horizontalpodautoscaler", Kind: "HorizontalPodAutoscaler",
		Names: kind.Names{Short: []string{"hpa"}, Categories: []string{"all"}},
		Types: types[autoscalingv2.HorizontalPodAutoscaler, autoscalingv2.HorizontalPodAutoscalerList](),
		Rules: kind.Rules{
			Default:                  func(o runtime.Object) { defaultAutoscaler(&o.(*autoscalingv2.HorizontalPodAutoscaler).Spec) },
			AllowUnconditionalUpdate: true,
		},
	}
	k.Types.Namespaced, k.Types.HasStatus, k.Types.NoGenerate = true, true, true
	spec, status := autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc(), autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Def("Reference", spec["scaleTargetRef"]), column.Def("Targets", spec["metrics"]), column.Def("MinPods", spec["minReplicas"]),
			column.Def("MaxPods", spec["maxReplicas"]), column.Def("Replicas", status["currentReplicas"]), column.Age(),
		},
		Row: row(func(h *autoscalingv2.HorizontalPodAutoscaler, o kind.RowOptions) []any {
			least := "<unset>"
			if h.Spec.MinReplicas != nil {
				least = strconv.Itoa(int(*h.Spec.MinReplicas))
			}
			return []any{
				h.Name, h.Spec.ScaleTargetRef.Kind + "/" + h.Spec.ScaleTargetRef.Name, targets(h.Spec.Metrics, h.Status.CurrentMetrics),
				least, int64(h.Spec.MaxReplicas), int64(h.Status.CurrentReplicas), column.Since(h.CreationTimestamp, o.Now),
			}
		}),
	}
	return []kind.Kind{k}
}

func defaultAutoscaler(s *autoscalingv2.HorizontalPodAutoscalerSpec) {
	orElse(&s.MinReplicas, 1)
	if len(s.Metrics) == 0 {
		s.Metrics = []autoscalingv2.MetricSpec{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(80))},
			},
		}}
	}
	if b := s.Behavior; b != nil {
		b.ScaleUp = scalingRules(b.ScaleUp, autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: new(int32(0)), SelectPolicy: new(autoscalingv2.MaxChangePolicySelect),
			Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15}, {Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}},
		})
		b.ScaleDown = scalingRules(b.ScaleDown, autoscalingv2.HPAScalingRules{
			SelectPolicy: new(autoscalingv2.MaxChangePolicySelect),
			Policies:     []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}},
		})
	}
}

// scalingRules fills in what one direction of a behaviour leaves open.
func scalingRules(r *autoscalingv2.HPAScalingRules, unset autoscalingv2.HPAScalingRules) *autoscalingv2.HPAScalingRules {
	if r == nil {
		return &unset
	}
	if r.SelectPolicy == nil {
		r.SelectPolicy = unset.SelectPolicy
	}
	if r.StabilizationWindowSeconds == nil {
		r.StabilizationWindowSeconds = unset.StabilizationWindowSeconds
	}
	if r.Policies == nil {
		r.Policies = unset.Policies
	}
	return r
}

// targets prints what is measured against what is aimed at.
func targets(specs []autoscalingv2.MetricSpec, current []autoscalingv2.MetricStatus) string {
	if len(specs) == 0 {
		return "<none>"
	}
	var out []string
	for i, m := range specs {
		now := "<unknown>"
		if m.Type != autoscalingv2.ResourceMetricSourceType || m.Resource == nil {
			out = append(out, string(m.Type))
			continue
		}
		t := m.Resource.Target
		var have *autoscalingv2.MetricValueStatus
		if len(current) > i && current[i].Resource != nil {
			have = &current[i].Resource.Current
		}
		switch {
		case t.AverageValue != nil:
			if have != nil && have.AverageValue != nil {
				now = have.AverageValue.String()
			}
			out = append(out, fmt.Sprintf("%s: %s/%s", m.Resource.Name, now, t.AverageValue.String()))
		case t.AverageUtilization != nil:
			if have != nil && have.AverageUtilization != nil {
				now = fmt.Sprintf("%d%%", *have.AverageUtilization)
			}
			out = append(out, fmt.Sprintf("%s: %s/%d%%", m.Resource.Name, now, *t.AverageUtilization))
		}
	}
	return column.Few(out, 2)
}
