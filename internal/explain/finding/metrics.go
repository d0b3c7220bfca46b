package finding

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
		default:
			continue // of metrics.k8s.io, which a cluster has or lacks for all
		}
		if len(c.Served[group]) > 0 {
			continue
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
