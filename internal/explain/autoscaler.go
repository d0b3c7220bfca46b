package explain

import (
	"fmt"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// autoscaler explains a HorizontalPodAutoscaler: what is wrong with it, or what it scales to and by
// which metrics.
func (s Subject) autoscaler(a *Answer, h *autoscalingv2.HorizontalPodAutoscaler, found []finding.Finding) {
	s.general(a, found)
	metrics := metricTexts(h)
	if a.State != "well" || len(metrics) == 0 {
		return
	}
	least := int32(1)
	if h.Spec.MinReplicas != nil {
		least = *h.Spec.MinReplicas
	}
	target, bounds := h.Spec.ScaleTargetRef, fmt.Sprintf("within %d to %d", least, h.Spec.MaxReplicas)
	does := fmt.Sprintf("keeps %s %s at %d replicas", target.Kind, target.Name, h.Status.DesiredReplicas)
	if h.Status.DesiredReplicas != h.Status.CurrentReplicas {
		does = fmt.Sprintf("scales %s %s from %d to %d replicas", target.Kind, target.Name, h.Status.CurrentReplicas,
			h.Status.DesiredReplicas)
	}
	a.Cause = fmt.Sprintf("It %s (%s): %s.", does, bounds, strings.Join(metrics, "; "))
	for _, c := range h.Status.Conditions {
		held := c.Type == autoscalingv2.AbleToScale && strings.HasSuffix(c.Reason, "Stabilized")
		limited := c.Type == autoscalingv2.ScalingLimited && c.Status == corev1.ConditionTrue
		if held || limited {
			a.Facts = append(a.Facts, fmt.Sprintf("%s (%s): %s", c.Type, c.Reason, c.Message))
		}
	}
	if e := s.newestEvent("SuccessfulRescale"); e != nil {
		a.Facts = append(a.Facts, fmt.Sprintf("it last scaled %s ago: %s", ago(s.Now.Sub(e.LastTimestamp.Time)),
			e.Message))
	} else if t := h.Status.LastScaleTime; t != nil {
		a.Facts = append(a.Facts, "it last scaled "+ago(s.Now.Sub(t.Time))+" ago")
	}
}

// metricTexts says of each metric where it is and where it should be. The controller writes their
// status in the order of the spec.
func metricTexts(h *autoscalingv2.HorizontalPodAutoscaler) (out []string) {
	for i := range h.Status.CurrentMetrics {
		if i >= len(h.Spec.Metrics) {
			break
		}
		want, have := &h.Spec.Metrics[i], &h.Status.CurrentMetrics[i]
		switch {
		case want.Resource != nil && have.Resource != nil:
			out = append(out, valueText(string(want.Resource.Name), have.Resource.Current, want.Resource.Target))
		case want.ContainerResource != nil && have.ContainerResource != nil:
			out = append(out, valueText(fmt.Sprintf("%s of container %s", want.ContainerResource.Name,
				want.ContainerResource.Container), have.ContainerResource.Current, want.ContainerResource.Target))
		case want.Pods != nil && have.Pods != nil:
			out = append(out, valueText(want.Pods.Metric.Name, have.Pods.Current, want.Pods.Target))
		case want.Object != nil && have.Object != nil:
			out = append(out, valueText(fmt.Sprintf("%s of %s %s", want.Object.Metric.Name,
				want.Object.DescribedObject.Kind, want.Object.DescribedObject.Name), have.Object.Current,
				want.Object.Target))
		case want.External != nil && have.External != nil:
			out = append(out, valueText(want.External.Metric.Name, have.External.Current, want.External.Target))
		}
	}
	return out
}

// valueText compares one metric with its target, in the target's unit.
func valueText(name string, have autoscalingv2.MetricValueStatus, want autoscalingv2.MetricTarget) string {
	number := func(q *resource.Quantity) string {
		if q == nil {
			return "unknown"
		}
		return q.String()
	}
	switch {
	case want.AverageUtilization != nil && have.AverageUtilization == nil:
		return fmt.Sprintf("%s is unknown, the target is %d%% of the requests", name, *want.AverageUtilization)
	case want.AverageUtilization != nil && have.AverageUtilization != nil:
		return fmt.Sprintf("%s is at %d%% of the requests, the target is %d%%", name, *have.AverageUtilization,
			*want.AverageUtilization)
	case want.AverageValue != nil:
		return fmt.Sprintf("%s is %s for each Pod, the target is %s", name, number(have.AverageValue),
			number(want.AverageValue))
	}
	return fmt.Sprintf("%s is %s, the target is %s", name, number(have.Value), number(want.Value))
}
