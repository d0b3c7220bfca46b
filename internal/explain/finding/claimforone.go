package finding

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/workload"
)

// readWriteOncePodShared finds a workload of several Pods that share a claim which is for one Pod
// at a time (ReadWriteOncePod): only one of them can ever be placed.
func readWriteOncePodShared(c *Cluster, o metav1.Object, self Object) []Finding {
	spec, _ := podSpecOf(o)
	n := workload.FieldsOf(o).Replicas
	if spec == nil || n < 2 || metav1.GetControllerOf(o) != nil {
		return nil
	}
	var out []Finding
	for _, v := range spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		p, ok := get[*corev1.PersistentVolumeClaim](c, "PersistentVolumeClaim", self.Namespace,
			v.PersistentVolumeClaim.ClaimName)
		if !ok || !slices.Contains(p.Spec.AccessModes, corev1.ReadWriteOncePod) {
			continue
		}
		out = append(out, Finding{Code: "ClaimForOne", Stage: StagePlacement, Object: self, Field: "spec.replicas",
			Value: fmt.Sprint(n), Want: "1", Related: []Object{objectOf("PersistentVolumeClaim", p)},
			Numbers: map[string]string{"replicas": fmt.Sprint(n), "claim": p.Name},
			Message: fmt.Sprintf("%s %s wants %d Pods, and all of them use claim %s, which is for one Pod at a time "+
				"(%s): only one of them can run.", self.Kind, self.Name, n, p.Name, corev1.ReadWriteOncePod),
			Remedies: []Remedy{{Say: "do with one Pod", Run: []string{fmt.Sprintf("kubectl -n %s scale %s/%s "+
				"--replicas=1",
				self.Namespace, self.lower(), self.Name)}}, {Say: "or make the claim anew with access mode " +
				"ReadWriteMany, if its driver offers that, or give each Pod a claim of its own (a StatefulSet's " +
				"volumeClaimTemplates)"}}})
	}
	return out
}
