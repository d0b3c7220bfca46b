package finding

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/workload"
)

// scaledBy finds the autoscaler that sets a workload's replicas: another number does not stay.
func scaledBy(c *Cluster, o metav1.Object, self Object) []Finding {
	fields := workload.FieldsOf(o)
	n := fields.Replicas
	if !fields.Scales || n == 0 {
		return nil
	}
	for _, h := range in[*autoscalingv2.HorizontalPodAutoscaler](c, "HorizontalPodAutoscaler", self.Namespace) {
		t := h.Spec.ScaleTargetRef
		if t.Kind != self.Kind || t.Name != self.Name {
			continue
		}
		least := minReplicas(h)
		f := Finding{Code: "ScaledByAutoscaler", Severity: Note, Stage: StageChange,
			Object: objectOf("HorizontalPodAutoscaler", h), Field: "spec.maxReplicas",
			Value: fmt.Sprint(h.Spec.MaxReplicas), Related: []Object{self}, Numbers: map[string]string{
				"replicas": fmt.Sprint(n), "minReplicas": fmt.Sprint(least),
				"maxReplicas": fmt.Sprint(h.Spec.MaxReplicas)},
			Message: fmt.Sprintf("HorizontalPodAutoscaler %s sets the replicas of %s %s (%d now) within "+
				"minReplicas %d "+
				"and maxReplicas %d: another number that is set by hand does not stay.", h.Name, self.Kind, self.Name,
				n,
				least, h.Spec.MaxReplicas)}
		if n >= h.Spec.MaxReplicas {
			f.Message += " It is at its maximum."
			f.Remedies = []Remedy{{Say: "let it have more replicas", Run: []string{kubectl(f.Object, "patch",
				fmt.Sprintf(
					`--type=merge -p '{"spec":{"maxReplicas":%d}}'`, 2*h.Spec.MaxReplicas))}}}
		}
		return []Finding{f}
	}
	return nil
}
