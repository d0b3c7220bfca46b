package finding

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// takenClaims finds a Pod's own volume whose claim is there and was not made for it: a claim's name
// is the Pod's and the volume's, and one of somebody else is not used.
func takenClaims(c *Cluster, o metav1.Object, self Object) []Finding {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	var out []Finding
	for i, v := range p.Spec.Volumes {
		if v.Ephemeral == nil {
			continue
		}
		to := Object{"PersistentVolumeClaim", self.Namespace, p.Name + "-" + v.Name}
		claim := c.Get(to)
		if claim == nil || metav1.IsControlledBy(claim, p) {
			continue
		}
		of := "nobody"
		if r := metav1.GetControllerOf(claim); r != nil {
			of = r.Kind + " " + r.Name
		}
		out = append(out, Finding{Code: "NameTaken", Stage: StageVolume, Object: self,
			Field: fmt.Sprintf("spec.volumes[%d].ephemeral", i), Value: to.Name, Related: []Object{to},
			Message: fmt.Sprintf("Volume %s of Pod %s wants a claim of its own, which would be named %s, and there "+
				"is a claim of that name that belongs to %s: it is not used, and the Pod waits.", v.Name, self.Name,
				to.Name, of),
			Remedies: []Remedy{{Say: fmt.Sprintf("let the Pod use that claim as it is: a volume with "+
				"persistentVolumeClaim %s instead of ephemeral", to.Name)},
				{Say: "or delete the claim, with its data: the Pod's own is then made",
					Run: []string{kubectl(to, "delete", "")}},
				{Say: "or give the Pod, or the volume, another name"}}})
	}
	return out
}
