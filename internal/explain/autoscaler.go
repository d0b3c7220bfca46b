package explain

import (
	"fmt"
	"math"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/pod"
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
	bound := false
	for _, c := range h.Status.Conditions {
		held := c.Type == autoscalingv2.AbleToScale && strings.HasSuffix(c.Reason, "Stabilized")
		limited := c.Type == autoscalingv2.ScalingLimited && c.Status == corev1.ConditionTrue
		if held || limited {
			bound = true
			a.Facts = append(a.Facts, fmt.Sprintf("%s (%s): %s", c.Type, c.Reason, c.Message))
		}
	}
	if stays := s.unmoved(h); stays != "" && !bound {
		a.Facts = append(a.Facts, stays)
	}
	if e := s.newestEvent("SuccessfulRescale"); e != nil {
		a.Facts = append(a.Facts, fmt.Sprintf("it last scaled %s ago: %s", ago(s.Now.Sub(e.LastTimestamp.Time)),
			e.Message))
	} else if t := h.Status.LastScaleTime; t != nil {
		a.Facts = append(a.Facts, "it last scaled "+ago(s.Now.Sub(t.Time))+" ago")
	}
}

// defaultTolerance is how far the ratio of figure to target may be from 1, as the controllers' flag
// has it when nobody sets it.
const defaultTolerance = 0.1

// unmoved says why the count stays although the greatest figure is not at its target; empty when it
// is, when the count changes, and when no figure can be compared.
func (s Subject) unmoved(h *autoscalingv2.HorizontalPodAutoscaler) string {
	ratio, known := greatestRatio(h)
	if !known || ratio == 1 || h.Status.DesiredReplicas != h.Status.CurrentReplicas {
		return ""
	}
	up := ratio > 1
	if off := math.Abs(ratio - 1); off <= toleranceOf(h, up) {
		return fmt.Sprintf("%.0f%% off the target is within the tolerance of %.0f%%: the count stays", off*100,
			toleranceOf(h, up)*100)
	}
	unready := 0
	for _, p := range s.Pods {
		if !pod.IsReady(p) {
			unready++
		}
	}
	pods := "Pods that are not ready or have no figures"
	if unready > 0 {
		pods += fmt.Sprintf(" (%d of %d are not ready)", unready, len(s.Pods))
	}
	if up {
		return pods + " count as idle while it would scale up: with them the figure is too low for one more"
	}
	if math.Ceil(ratio*float64(h.Status.CurrentReplicas)) >= float64(h.Status.CurrentReplicas) {
		return fmt.Sprintf("one replica less would be above the target: %d at the target do what %d do now",
			int(math.Ceil(ratio*float64(h.Status.CurrentReplicas))), h.Status.CurrentReplicas)
	}
	return pods + " count as using their whole request while it would scale down: with them the figure is too high " +
		"for one less"
}

// toleranceOf is the tolerance of a direction.
func toleranceOf(h *autoscalingv2.HorizontalPodAutoscaler, up bool) float64 {
	if b := h.Spec.Behavior; b != nil {
		rules := b.ScaleDown
		if up {
			rules = b.ScaleUp
		}
		if rules != nil && rules.Tolerance != nil {
			return rules.Tolerance.AsApproximateFloat64()
		}
	}
	return defaultTolerance
}

// greatestRatio is the greatest ratio of figure to target, by which the count is chosen; known is
// false when a figure is missing.
func greatestRatio(h *autoscalingv2.HorizontalPodAutoscaler) (ratio float64, known bool) {
	if len(h.Status.CurrentMetrics) < len(h.Spec.Metrics) {
		return 0, false
	}
	for i := range h.Spec.Metrics {
		have, want := perPod(&h.Status.CurrentMetrics[i], &h.Spec.Metrics[i])
		if want == 0 || have < 0 {
			return 0, false
		}
		ratio, known = max(ratio, have/want), true
	}
	return ratio, known
}

// perPod are a metric's figure and target for each Pod; a figure that is not there is negative, the
// target of a metric that is not of Pods is 0.
func perPod(have *autoscalingv2.MetricStatus, want *autoscalingv2.MetricSpec) (figure, target float64) {
	var is autoscalingv2.MetricValueStatus
	var goal autoscalingv2.MetricTarget
	switch {
	case want.Resource != nil && have.Resource != nil:
		is, goal = have.Resource.Current, want.Resource.Target
	case want.ContainerResource != nil && have.ContainerResource != nil:
		is, goal = have.ContainerResource.Current, want.ContainerResource.Target
	case want.Pods != nil && have.Pods != nil:
		is, goal = have.Pods.Current, want.Pods.Target
	default:
		return -1, 0
	}
	switch {
	case goal.AverageUtilization != nil && is.AverageUtilization != nil:
		return float64(*is.AverageUtilization), float64(*goal.AverageUtilization)
	case goal.AverageValue != nil && is.AverageValue != nil:
		return is.AverageValue.AsApproximateFloat64(), goal.AverageValue.AsApproximateFloat64()
	}
	return -1, 0
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
