package finding

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// DriverVolumes are the volumes of a CSI driver that a node's Pods use, and how many it takes.
type DriverVolumes struct {
	Driver string
	Count  int32    // how many the node takes; 0: not told
	Index  int      // of the driver in the CSINode
	Used   int      // how many different volumes its Pods use
	Pods   []Object // that use them
}

// claimsOf are the claims of a Pod that were read, in the order of its volumes.
func (c *Cluster) claimsOf(p *corev1.Pod) []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	for i := range p.Spec.Volumes {
		name, _ := pod.ClaimName(p, &p.Spec.Volumes[i])
		if x, ok := get[*corev1.PersistentVolumeClaim](c, "PersistentVolumeClaim", p.Namespace, name); ok {
			out = append(out, x)
		}
	}
	return out
}

// AttachmentsOn says what is known of a node's attachments by the driver of a claim; ok is false
// when its CSINode tells no number. Pods of namespaces that were not read do not count.
func (c *Cluster) AttachmentsOn(node, namespace, claim string) (out DriverVolumes, ok bool) {
	if c == nil {
		return out, false
	}
	out.Driver = c.DriverOf(namespace, claim)
	if out.Driver == "" {
		if p, ok := get[*corev1.PersistentVolumeClaim](c, "PersistentVolumeClaim", namespace, claim); ok {
			if class, _ := c.classOf(p); class != nil {
				out.Driver = class.Provisioner
			}
		}
	}
	n, ok := get[*storagev1.CSINode](c, "CSINode", "", node)
	if !ok || out.Driver == "" {
		return out, false
	}
	for i, d := range n.Spec.Drivers {
		if d.Name == out.Driver && d.Allocatable != nil && d.Allocatable.Count != nil {
			out.Index, out.Count = i, *d.Allocatable.Count
		}
	}
	if out.Count == 0 {
		return out, false
	}
	seen := map[string]bool{}
	for _, p := range list[*corev1.Pod](c, "Pod") {
		if p.Spec.NodeName != node || pod.IsTerminal(p) {
			continue
		}
		for _, x := range c.claimsOf(p) {
			if c.DriverOf(p.Namespace, x.Name) != out.Driver {
				continue
			}
			seen[x.Spec.VolumeName] = true
			if o := objectOf("Pod", p); !slices.Contains(out.Pods, o) {
				out.Pods = append(out.Pods, o)
			}
		}
	}
	out.Used = len(seen)
	return out, true
}

// notMounted finds what a Pod that has a node waits for before its volumes can be mounted: an
// attachment that nobody makes, or a driver that the node does not have.
func notMounted(c *Cluster, o metav1.Object, self Object) []Finding {
	p, ok := o.(*corev1.Pod)
	if !ok || p.Spec.NodeName == "" || p.DeletionTimestamp != nil || started(p) ||
		c.Now.Sub(p.CreationTimestamp.Time) < settleTime {
		return nil
	}
	var out []Finding
	for _, claim := range c.claimsOf(p) {
		v, ok := get[*corev1.PersistentVolume](c, "PersistentVolume", "", claim.Spec.VolumeName)
		if !ok || v.Spec.CSI == nil {
			continue
		}
		out = append(out, c.notAttached(v, p)...)
		out = append(out, c.driverMissing(v, p, self)...)
	}
	return out
}

// started reports whether a container of a Pod has run.
func started(p *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses),
		func(s corev1.ContainerStatus) bool {
			return s.State.Running != nil || s.State.Terminated != nil || s.RestartCount > 0
		})
}

// needsAttachment reports whether a driver's volumes are attached before they are mounted; one
// without a CSIDriver object's are.
func (c *Cluster) needsAttachment(driver string) bool {
	d, ok := get[*storagev1.CSIDriver](c, "CSIDriver", "", driver)
	return !ok || d.Spec.AttachRequired == nil || *d.Spec.AttachRequired
}

// notAttached is the attachment of a volume to the Pod's node that is not made.
func (c *Cluster) notAttached(v *corev1.PersistentVolume, p *corev1.Pod) []Finding {
	if !c.needsAttachment(v.Spec.CSI.Driver) {
		return nil
	}
	for _, a := range list[*storagev1.VolumeAttachment](c, "VolumeAttachment") {
		n := a.Spec.Source.PersistentVolumeName
		if n == nil || *n != v.Name || a.Spec.NodeName != p.Spec.NodeName || a.Status.Attached {
			continue
		}
		at := objectOf("VolumeAttachment", a)
		out := attachment(c, a, at)
		for i := range out {
			f := &out[i]
			f.Severity = Broken
			f.Related = append(f.Related, objectOf("PersistentVolume", v), objectOf("Pod", p))
			if f.Code == "NotAttached" {
				f.Field, f.Value = "spec.attacher", a.Spec.Attacher
				f.Message = fmt.Sprintf("Nobody has attached volume %s of Pod %s to node %s: VolumeAttachment %s "+
					"waits for the attacher of driver %s (its external-attacher).", v.Name, p.Name, p.Spec.NodeName,
					a.Name, a.Spec.Attacher)
				f.Remedies = []Remedy{{Say: "start the controller plugin of driver " + a.Spec.Attacher +
					" with its external-attacher, and read what it says"}, {Say: "or, if its volumes need no " +
					"attachment, make its CSIDriver anew with attachRequired false"}}
			}
		}
		return out
	}
	return nil
}

// driverMissing is a driver that the Pod's node does not have, by its CSINode.
func (c *Cluster) driverMissing(v *corev1.PersistentVolume, p *corev1.Pod, self Object) []Finding {
	n, ok := get[*storagev1.CSINode](c, "CSINode", "", p.Spec.NodeName)
	driver := v.Spec.CSI.Driver
	var have []string
	if ok {
		for _, d := range n.Spec.Drivers {
			have = append(have, d.Name)
		}
	}
	if !c.Read("CSINode") || slices.Contains(have, driver) {
		return nil
	}
	node := p.Spec.NodeName
	f := Finding{Code: "DriverNotRegistered", Stage: StageVolume, Object: Object{Kind: "CSINode", Name: node},
		Field: "spec.drivers", Value: driver, Related: []Object{{"CSIDriver", "", driver},
			objectOf("PersistentVolume", v), {"Node", "", node}, self},
		Message: fmt.Sprintf("Node %s does not have CSI driver %s of volume %s (spec.csi.driver): its kubelet knows "+
			"%s. The driver's node plugin does not run there, or its registrar does not.", node, driver, v.Name,
			orNone(have, "no driver")), Remedies: []Remedy{{Say: fmt.Sprintf("let the node plugin of driver %s run on "+
			"node %s, and read what it says", driver, node), Run: []string{
			"kubectl get pods -A -o wide --field-selector spec.nodeName=" + node}}}}
	if near, how := Near(driver, have); near != "" {
		f.Want = near
		f.Message += fmt.Sprintf(" There is %s; %s.", near, how)
	}
	return []Finding{f}
}
