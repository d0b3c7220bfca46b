package finding

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
)

// volume finds a PersistentVolume that no claim can use: released, kept for a claim that is not
// there, or on nodes that are not there.
func volume(c *Cluster, o metav1.Object, self Object) []Finding {
	v, ok := o.(*corev1.PersistentVolume)
	if !ok {
		return nil
	}
	var out []Finding
	if r := v.Spec.ClaimRef; r != nil {
		to := Object{"PersistentVolumeClaim", r.Namespace, r.Name}
		retained := v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
		switch released := v.Status.Phase == corev1.VolumeReleased; {
		case released && !retained: // it is being deleted
		case released:
			out = append(out, Finding{Code: "VolumeReleased", Severity: Threat, Stage: StageVolume, Object: self,
				Field: "spec.claimRef", Value: r.Namespace + "/" + r.Name, Related: []Object{to},
				Message: fmt.Sprintf("Volume %s is Released: its claim %s/%s is gone, and with reclaim policy %s it "+
					"serves no other one until spec.claimRef is removed.", self.Name, r.Namespace, r.Name,
					v.Spec.PersistentVolumeReclaimPolicy),
				Remedies: []Remedy{{Say: "let it be claimed again: its data stay on it, and the new claim sees them",
					Run: []string{kubectl(self, "patch",
						`--type=json -p '[{"op":"remove","path":"/spec/claimRef"}]'`)}}}})
		case c.knows(to) && c.Get(to) == nil:
			f, _ := c.missing(Reference{Field: "spec.claimRef", To: to, Stage: StageVolume}, self)
			f.Severity = Threat
			if f.Want != "" {
				f.Remedies = []Remedy{{Say: "keep it for " + f.Want, Run: []string{kubectl(self, "patch",
					"--type=merge -p "+shellquote.Quoted(fmt.Sprintf(
						`{"spec":{"claimRef":{"name":%s,"uid":null,"resourceVersion":null}}}`, jsonText(f.Want))))}}}
			}
			out = append(out, f)
		}
	}
	if v.Status.Phase == corev1.VolumeFailed {
		out = append(out, Finding{Code: "VolumeFailed", Stage: StageVolume, Object: self, Field: "status.phase",
			Value: "Failed", Message: fmt.Sprintf("Volume %s could not be reclaimed: %s", self.Name, v.Status.Message)})
	}
	if a := v.Spec.NodeAffinity; a != nil && a.Required != nil && len(c.Objects["Node"]) > 0 {
		for _, f := range nodeExpressions(c, self, a.Required.NodeSelectorTerms,
			"spec.nodeAffinity.required.nodeSelectorTerms") {
			f.Remedies = []Remedy{{Say: fmt.Sprintf("bring a node with %s back. The nodeAffinity of a volume "+
				"cannot be changed, so this cannot be tried here: to have it elsewhere, make the volume and its claim "+
				"anew", f.Value)}}
			out = append(out, f)
		}
	}
	return out
}

// storageClass finds a class that serves nobody: topologies that no node has, a driver that is not
// there, a second default.
func storageClass(c *Cluster, o metav1.Object, self Object) []Finding {
	x, ok := o.(*storagev1.StorageClass)
	if !ok {
		return nil
	}
	var out []Finding
	for i, t := range x.AllowedTopologies {
		for j, e := range t.MatchLabelExpressions {
			q := corev1.NodeSelectorRequirement{Key: e.Key, Operator: corev1.NodeSelectorOpIn, Values: e.Values}
			nodes := list[*corev1.Node](c, "Node")
			if len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n *corev1.Node) bool {
				return fulfils(n.Labels,
					q)
			}) {
				f := c.nodeExpression(self, q, fmt.Sprintf("allowedTopologies[%d].matchLabelExpressions[%d]", i, j))
				f.Severity = Threat
				f.Remedies = nil // a class cannot be changed
				out = append(out, f)
			}
		}
	}
	if c.Read("CSIDriver") && !strings.HasPrefix(x.Provisioner, "kubernetes.io/") {
		if _, ok := get[metav1.Object](c, "CSIDriver", "", x.Provisioner); !ok {
			f := Finding{Code: "ProvisionerUnknown", Severity: Threat, Stage: StageVolume, Object: self,
				Field: "provisioner", Value: x.Provisioner, Message: fmt.Sprintf("Storage class %s has the "+
					"provisioner %s, and no CSIDriver of that name is registered.", self.Name, x.Provisioner)}
			// a provisioner need not be a CSI driver
			if near, how := Near(x.Provisioner, c.names("CSIDriver", "")); near != "" {
				f.Want = near
				f.Message += fmt.Sprintf(" There is %s: perhaps that was meant; %s.", near, how)
				out = append(out, f)
			}
		}
	}
	return out
}

// usedClaim tells which Pods keep a claim that is being deleted.
func usedClaim(c *Cluster, o metav1.Object, self Object) []Finding {
	if o.GetDeletionTimestamp() == nil || !slices.Contains(o.GetFinalizers(), "kubernetes.io/pvc-protection") {
		return nil
	}
	f := Finding{Code: "ClaimInUse", Stage: StageChange, Object: self, Field: "metadata.finalizers",
		Value: "kubernetes.io/pvc-protection"}
	var names []string
	var makers []Object
	var held []Finding
	for _, p := range in[*corev1.Pod](c, "Pod", self.Namespace) {
		for i := range p.Spec.Volumes {
			if v := p.Spec.Volumes[i].PersistentVolumeClaim; v != nil && v.ClaimName == self.Name {
				f.Related = append(f.Related, objectOf("Pod", p))
				names = append(names, p.Name)
				held = append(held, c.lastHeld(p, objectOf("Pod", p))...)
				if root := c.PodOwner(p); root.Kind != "Pod" && !slices.Contains(makers, root) {
					makers = append(makers, root)
				}
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	f.Numbers = map[string]string{"pods": fmt.Sprint(len(names))}
	f.Message = fmt.Sprintf("Claim %s is being deleted and is kept while a Pod uses it (%s): it goes when they have "+
		"gone, with its data if the reclaim policy is Delete.", self.Name, joined(names))
	for _, x := range held {
		f.Message += " " + x.Message
		f.Remedies = append(f.Remedies, x.Remedies...)
	}
	f.Related = append(f.Related, makers...)
	for _, m := range makers {
		f.Message += fmt.Sprintf(" %s %s makes such Pods anew while it stands as it is.", m.Kind, m.Name)
		if slices.Contains([]string{"Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"}, m.Kind) {
			f.Remedies = append(f.Remedies, Remedy{Say: fmt.Sprintf("scale %s %s to nothing", m.Kind, m.Name),
				Run: []string{kubectl(m, "scale", "--replicas=0")}})
		}
	}
	return []Finding{f}
}

// attachment finds a VolumeAttachment that its driver could not make or undo.
func attachment(_ *Cluster, o metav1.Object, self Object) []Finding {
	a, ok := o.(*storagev1.VolumeAttachment)
	if !ok {
		return nil
	}
	var out []Finding
	add := func(field string, e *storagev1.VolumeError) {
		if e != nil {
			out = append(out, Finding{Code: "AttachFailed", Stage: StageVolume, Object: self, Field: "status." + field,
				Value: e.Message, Message: fmt.Sprintf("Driver %s cannot attach the volume of %s to node %s (%s): %s",
					a.Spec.Attacher, self.Name, a.Spec.NodeName, field, e.Message)})
		}
	}
	add("attachError", a.Status.AttachError)
	add("detachError", a.Status.DetachError)
	if len(out) == 0 && !a.Status.Attached && a.DeletionTimestamp == nil {
		out = append(out, Finding{Code: "NotAttached", Severity: Threat, Stage: StageVolume, Object: self,
			Field: "status.attached", Value: "false", Message: fmt.Sprintf("Driver %s has not attached the volume "+
				"of %s to node %s yet.", a.Spec.Attacher, self.Name, a.Spec.NodeName)})
	}
	return out
}
