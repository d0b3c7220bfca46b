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
				"minReplicas %d and maxReplicas %d: another number that is set by hand does not "+
				"stay.", h.Name, self.Kind, self.Name,
				n,
				least, h.Spec.MaxReplicas)}
		if n >= h.Spec.MaxReplicas {
			f.Message += " It is at its maximum."
			more := 2 * h.Spec.MaxReplicas
			f.Remedies = []Remedy{{Say: fmt.Sprintf("let it have up to %d replicas, and ask for as many: without "+
				"load the autoscaler takes them away "+
				"again", more), Run: []string{kubectl(f.Object, "patch", fmt.Sprintf(
				`--type=merge -p '{"spec":{"maxReplicas":%d}}'`, more)), fmt.Sprintf("kubectl -n %s scale %s/%s "+
				"--replicas=%d",
				self.Namespace, self.lower(), self.Name, more)}}}
		}
		return []Finding{f}
	}
	return nil
}
