package finding

import (
	"fmt"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// resourceMetrics is the API group of what containers use.
const resourceMetrics = "metrics.k8s.io"

// unserved reports whether nobody serves an API group of metrics and an autoscaler stands still for
// it: a cluster that reads metrics elsewhere may do without.
func (c *Cluster) unserved(group string, h *autoscalingv2.HorizontalPodAutoscaler) bool {
	return len(c.Served) > 0 && len(c.Served[group]) == 0 && noResourceMetric(h) != ""
}

// noResourceMetric is the reason for which an autoscaler stands still without the use of resources;
// empty when it does not.
func noResourceMetric(h *autoscalingv2.HorizontalPodAutoscaler) string {
	for _, x := range h.Status.Conditions {
		if x.Type == autoscalingv2.ScalingActive && x.Status == corev1.ConditionFalse &&
			strings.HasSuffix(x.Reason, "ResourceMetric") {
			return x.Reason
		}
	}
	return ""
}

// noMetricsServer is that nobody measures what containers use, found at the field of a metric.
func noMetricsServer(self Object, field, name, reason string) Finding {
	return Finding{Code: "MetricsNotServed", Stage: StageControl, Object: self,
		Field: field, Value: name, Numbers: map[string]string{"group": resourceMetrics},
		Message: fmt.Sprintf("Autoscaler %s does not scale (%s): it measures %s, and nobody serves API group %s: no "+
			"metrics-server runs in this cluster, or the API server does not reach it.", self.Name, reason, name,
			resourceMetrics),
		Remedies: []Remedy{{Say: "see whether there is one", Run: []string{"kubectl get apiservice v1beta1." +
			resourceMetrics}}, {Say: "install metrics-server"}}}
}

// metricsServed finds metrics of an autoscaler whose API group nobody serves.
func metricsServed(c *Cluster, o metav1.Object, self Object) []Finding {
	h, ok := o.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok || len(c.Served) == 0 {
		return nil
	}
	var out []Finding
	for i, m := range h.Spec.Metrics {
		var group, field, name string
		switch {
		case m.Pods != nil:
			group, field, name = "custom.metrics.k8s.io", "pods.metric.name", m.Pods.Metric.Name
		case m.Object != nil:
			group, field, name = "custom.metrics.k8s.io", "object.metric.name", m.Object.Metric.Name
		case m.External != nil:
			group, field, name = "external.metrics.k8s.io", "external.metric.name", m.External.Metric.Name
		case m.Resource != nil:
			group, field, name = resourceMetrics, "resource.name", string(m.Resource.Name)
		case m.ContainerResource != nil:
			group, field, name = resourceMetrics, "containerResource.name", string(m.ContainerResource.Name)
		default:
			continue
		}
		if len(c.Served[group]) > 0 || group == resourceMetrics && !c.unserved(group, h) {
			continue
		}
		if group == resourceMetrics {
			return append(out, noMetricsServer(self, fmt.Sprintf("spec.metrics[%d].%s", i, field), name,
				noResourceMetric(h)))
		}
		out = append(out, Finding{Code: "MetricsNotServed", Stage: StageControl, Object: self,
			Field: fmt.Sprintf("spec.metrics[%d].%s", i, field), Value: name,
			Numbers: map[string]string{"group": group},
			Message: fmt.Sprintf("Autoscaler %s measures %s, a metric of type %s, and nobody serves API group %s: an "+
				"adapter of the monitoring has to.", self.Name, name, m.Type, group),
			Remedies: []Remedy{{Say: "install an adapter that serves " + group,
				Run: []string{"kubectl get apiservices"}},
				{Say: "or measure cpu or memory of the Pods: type Resource"}}})
	}
	return out
}
