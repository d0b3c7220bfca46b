package finding

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// podVolumeHealth finds what CSI drivers say of a Pod's volumes (gate CSIVolumeHealth).
func podVolumeHealth(c *Cluster, o metav1.Object, self Object) []Finding {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	var out []Finding
	for _, h := range p.Status.VolumeHealth {
		if len(h.HealthConditions) == 0 {
			continue
		}
		if claim := claimOfVolume(p, h.Name); claim != "" {
			out = append(out, c.claimHealth(p.Namespace, claim)...)
			continue
		}
		for _, x := range h.HealthConditions { // an inline volume
			f := unhealthy(self, x, p.Spec.NodeName)
			f.Field, f.Value = "spec.volumes["+h.Name+"]", h.Name
			out = append(out, f)
		}
	}
	return out
}

// claimVolumeHealth finds what drivers say of a claim's volume: its controller, and the nodes of
// its Pods.
func claimVolumeHealth(c *Cluster, o metav1.Object, self Object) []Finding {
	out := c.claimHealth(self.Namespace, self.Name)
	claim, ok := o.(*corev1.PersistentVolumeClaim)
	if !ok || claim.Status.HealthStatus == nil {
		return out
	}
	for _, x := range claim.Status.HealthStatus.HealthConditions {
		f := unhealthy(self, x, "")
		f.Field, f.Value = "spec.volumeName", claim.Spec.VolumeName
		out = append(out, f)
	}
	return out
}

// claimHealth is what the nodes of a claim's Pods say of its volume, each thing of each node once.
func (c *Cluster) claimHealth(namespace, claim string) []Finding {
	type report struct{ node, status, reason string }
	var order []report
	said := map[report]Finding{}
	for _, p := range in[*corev1.Pod](c, "Pod", namespace) {
		for _, h := range p.Status.VolumeHealth {
			if claimOfVolume(p, h.Name) != claim {
				continue
			}
			for _, x := range h.HealthConditions {
				key := report{p.Spec.NodeName, string(x.Status), x.Reason}
				f, known := said[key]
				if !known {
					order = append(order, key)
					f = unhealthy(Object{Kind: "PersistentVolumeClaim", Namespace: namespace, Name: claim}, x,
						p.Spec.NodeName)
				}
				f.Related = append(f.Related, objectOf("Pod", p))
				said[key] = f
			}
		}
	}
	var out []Finding
	for _, key := range order {
		f := said[key]
		var pods []string
		for _, o := range f.Related {
			pods = append(pods, o.Name)
		}
		slices.Sort(pods)
		if x, ok := get[*corev1.PersistentVolumeClaim](c, "PersistentVolumeClaim", namespace, claim); ok {
			f.Field, f.Value = "spec.volumeName", x.Spec.VolumeName
			f.Related = append(f.Related, Object{Kind: "PersistentVolume", Name: x.Spec.VolumeName})
		}
		driver := c.DriverOf(namespace, claim)
		if driver != "" {
			f.Related = append(f.Related, Object{Kind: "CSIDriver", Name: driver})
			f.Message += " The CSI driver " + driver + " says so."
		}
		f.Related = append(f.Related, Object{Kind: "Node", Name: key.node})
		f.Numbers = map[string]string{"pods": fmt.Sprint(len(pods))}
		f.Message += " Pods that have it there: " + joined(pods) + "."
		out = append(out, f)
	}
	return out
}

// unhealthy is the finding of a condition; node is where it holds, empty: everywhere.
func unhealthy(o Object, c corev1.VolumeHealthCondition, node string) Finding {
	f := Finding{Code: "VolumeUnhealthy", Stage: StageVolume, Object: o, Severity: Broken}
	what, where := "cannot be accessed", ""
	switch c.Status {
	case corev1.VolumeHealthDataLoss:
		what = "has lost data, or may have"
	case corev1.VolumeHealthDegraded:
		f.Severity, what = Threat, "works worse than it should"
	}
	if node != "" {
		where = " on node " + node
	}
	f.Message = fmt.Sprintf("The volume of %s %s %s%s: %s (%s).", o.lower(), o.Name, what, where,
		cmp.Or(c.Message, "no more is said"), c.Reason)
	f.Remedies = []Remedy{{Say: "mend what the driver names; before anything else, copy what can still be read, or " +
		"stop who writes there"}}
	return f
}

// claimOfVolume is the name of the claim of one of the Pod's volumes; empty when it has none.
func claimOfVolume(p *corev1.Pod, volume string) string {
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; v.Name == volume {
			name, _ := pod.ClaimName(p, v)
			return name
		}
	}
	return ""
}

// nodeStorageHealth finds what CSI drivers say of their storage on a node.
func nodeStorageHealth(_ *Cluster, o metav1.Object, self Object) []Finding {
	n, ok := o.(*storagev1.CSINode)
	if !ok {
		return nil
	}
	var out []Finding
	for _, h := range n.Status.StorageHealth {
		for _, x := range h.HealthConditions {
			f := Finding{Code: "StorageUnhealthy", Stage: StageVolume, Severity: Threat, Object: self,
				Field: "status.storageHealth[" + h.Name + "]", Value: h.Name,
				Related: []Object{{Kind: "CSIDriver", Name: h.Name}, {Kind: "Node", Name: self.Name}}}
			what := "works worse than it should"
			if x.Status == storagev1.StorageUnreachable {
				f.Severity, what = Broken, "cannot be reached"
			}
			f.Message = fmt.Sprintf("The storage of CSI driver %s %s from node %s: %s (%s).", h.Name, what, self.Name,
				cmp.Or(x.Message, "no more is said"), x.Reason)
			f.Remedies = []Remedy{{Say: "mend what the driver names, or keep Pods with its volumes off the node"}}
			out = append(out, f)
		}
	}
	return out
}
