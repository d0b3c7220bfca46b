// Package autoscaling holds the rows of HorizontalPodAutoscaler.
//
// V2 is what is kept; the older v1 is a view of it.
// In: nothing. Out: rows for apiserver.Kinds, with v1.37's defaults, checks and columns.
package autoscaling

import (
	"fmt"
	"strconv"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// Kinds are the rows of this package.
func Kinds() []resourcedef.Kind {
	k := autoscalers()
	return []resourcedef.Kind{k, autoscalersV1(k)}
}

func autoscalers() resourcedef.Kind {
	k := resourcedef.Kind{
		Group: autoscalingv2.GroupName, Version: "v2", Resource: "horizontalpodautoscalers",
		Singular: "horizontalpodautoscaler", Kind: "HorizontalPodAutoscaler",
		Names: resourcedef.Names{Short: []string{"hpa"}, Categories: []string{"all"}},
		Types: typed.NewNamespacedTypes[autoscalingv2.HorizontalPodAutoscaler,
			autoscalingv2.HorizontalPodAutoscalerList](),
		Rules: typed.Rules[autoscalingv2.HorizontalPodAutoscaler]{
			Default:                  func(h *autoscalingv2.HorizontalPodAutoscaler) { defaultAutoscaler(&h.Spec) },
			Validate:                 check,
			ValidateStatus:           checkStatus,
			AllowUnconditionalUpdate: true,
		}.Untyped(),
	}
	k.Types.HasStatus, k.Types.OtherVersions = true, []string{"v1"}
	spec, status := autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc(),
		autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{
			printers.NameColumn(), printers.StringColumn("Reference", spec["scaleTargetRef"]),
			printers.StringColumn("Targets", spec["metrics"]), printers.StringColumn("MinPods", spec["minReplicas"]),
			printers.StringColumn("MaxPods", spec["maxReplicas"]),
			printers.StringColumn("Replicas", status["currentReplicas"]), printers.AgeColumn(),
		},
		Row: typed.RowFunc(func(h *autoscalingv2.HorizontalPodAutoscaler, o resourcedef.RowOptions) []any {
			least := "<unset>"
			if h.Spec.MinReplicas != nil {
				least = strconv.Itoa(int(*h.Spec.MinReplicas))
			}
			return []any{
				h.Name, h.Spec.ScaleTargetRef.Kind + "/" + h.Spec.ScaleTargetRef.Name,
				targets(h.Spec.Metrics, h.Status.CurrentMetrics),
				least, int64(h.Spec.MaxReplicas), int64(h.Status.CurrentReplicas),
				printers.TimestampSince(h.CreationTimestamp, o.Now),
			}
		}),
	}
	return k
}

// defaultUtilization is the CPU use, in percent of the request, that is aimed at when nothing is
// said.
const defaultUtilization = 80

func defaultAutoscaler(s *autoscalingv2.HorizontalPodAutoscalerSpec) {
	typed.SetDefault(&s.MinReplicas, 1)
	defaultMetrics(s)
	if b := s.Behavior; b != nil {
		all := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}
		b.ScaleUp = defaultScalingRules(b.ScaleUp, autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: new(int32(0)), SelectPolicy: new(autoscalingv2.MaxChangePolicySelect),
			Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 4,
				PeriodSeconds: 15}, all},
		})
		b.ScaleDown = defaultScalingRules(b.ScaleDown, autoscalingv2.HPAScalingRules{
			SelectPolicy: new(autoscalingv2.MaxChangePolicySelect), Policies: []autoscalingv2.HPAScalingPolicy{all},
		})
	}
}

func defaultMetrics(s *autoscalingv2.HorizontalPodAutoscalerSpec) {
	if len(s.Metrics) > 0 {
		return
	}
	s.Metrics = []autoscalingv2.MetricSpec{{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType,
				AverageUtilization: new(int32(defaultUtilization))},
		},
	}}
}

// defaultScalingRules fills in what one direction of a behaviour leaves open.
func defaultScalingRules(r *autoscalingv2.HPAScalingRules,
	unset autoscalingv2.HPAScalingRules) *autoscalingv2.HPAScalingRules {
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
	for i := range specs {
		var now *autoscalingv2.MetricStatus
		if len(current) > i {
			now = &current[i]
		}
		out = append(out, target(&specs[i], now))
	}
	const shown = 2
	if more := len(out) - shown; more > 0 {
		return fmt.Sprintf("%s + %d more...", strings.Join(out[:shown], ", "), more)
	}
	return strings.Join(out, ", ")
}

// target prints one metric: by name for resources, by what it counts for the others.
func target(m *autoscalingv2.MetricSpec, now *autoscalingv2.MetricStatus) string {
	if now == nil {
		now = &autoscalingv2.MetricStatus{}
	}
	switch {
	case m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil:
		var have *autoscalingv2.MetricValueStatus
		if now.Resource != nil {
			have = &now.Resource.Current
		}
		return fmt.Sprintf("%s: %s", m.Resource.Name, measured(&m.Resource.Target, have, ""))
	case m.Type == autoscalingv2.ContainerResourceMetricSourceType && m.ContainerResource != nil:
		var have *autoscalingv2.MetricValueStatus
		if now.ContainerResource != nil {
			have = &now.ContainerResource.Current
		}
		return fmt.Sprintf("%s: %s", m.ContainerResource.Name, measured(&m.ContainerResource.Target, have, ""))
	case m.Type == autoscalingv2.PodsMetricSourceType && m.Pods != nil:
		var have *autoscalingv2.MetricValueStatus
		if now.Pods != nil {
			have = &now.Pods.Current
		}
		return measured(&m.Pods.Target, have, "")
	case m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil:
		var have *autoscalingv2.MetricValueStatus
		if now.Object != nil {
			have = &now.Object.Current
		}
		return measured(&m.Object.Target, have, " (avg)")
	case m.Type == autoscalingv2.ExternalMetricSourceType && m.External != nil:
		var have *autoscalingv2.MetricValueStatus
		if now.External != nil {
			have = &now.External.Current
		}
		return measured(&m.External.Target, have, " (avg)")
	}
	return "<unknown type>"
}

// measured prints a value against its target; average marks averages of metrics that may also be
// whole values.
func measured(t *autoscalingv2.MetricTarget, have *autoscalingv2.MetricValueStatus, average string) string {
	now := "<unknown>"
	switch {
	case t.AverageValue != nil:
		if have != nil && have.AverageValue != nil {
			now = have.AverageValue.String()
		}
		return now + "/" + t.AverageValue.String() + average
	case t.Value != nil:
		if have != nil && have.Value != nil {
			now = have.Value.String()
		}
		return now + "/" + t.Value.String()
	case t.AverageUtilization != nil:
		if have != nil && have.AverageUtilization != nil {
			now = fmt.Sprintf("%d%%", *have.AverageUtilization)
		}
		return fmt.Sprintf("%s/%d%%", now, *t.AverageUtilization)
	}
	return now + "/<auto>"
}
