package finding

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
	"github.com/gantry-project/gantry/internal/pod"
)

// seLinuxShared finds a Pod that waits on a node for a volume which another Pod there has mounted
// with another SELinux label: a driver that mounts with labels (seLinuxMount) gives a volume one
// label per node.
func seLinuxShared(c *Cluster, o metav1.Object, self Object) []Finding {
	p, ok := o.(*corev1.Pod)
	if !ok || p.Spec.NodeName == "" || p.Status.Phase != corev1.PodPending || labelOf(p) == nil || recursive(p) {
		return nil
	}
	var out []Finding
	for _, claim := range c.claimsOf(p) {
		v, ok := get[*corev1.PersistentVolume](c, "PersistentVolume", "", claim.Spec.VolumeName)
		if !ok || !c.mountsLabels(v) {
			continue
		}
		for _, x := range list[*corev1.Pod](c, "Pod") {
			theirs := labelOf(x)
			if x.Name == p.Name && x.Namespace == p.Namespace || x.Spec.NodeName != p.Spec.NodeName ||
				pod.IsTerminal(x) ||
				theirs == nil || x.Status.Phase == corev1.PodPending || !c.uses(x, claim) || sameLabel(theirs,
				labelOf(p)) {
				continue
			}
			out = append(out, c.labelConflict(p, x, v, self))
			break
		}
	}
	return out
}

// labelConflict is the finding about a Pod and the one that has its volume with another label.
func (c *Cluster) labelConflict(p, x *corev1.Pod, v *corev1.PersistentVolume, self Object) Finding {
	mine, theirs := labelText(labelOf(p)), labelText(labelOf(x))
	f := Finding{Code: "SELinuxConflict", Stage: StageVolume, Object: self,
		Field: "spec.securityContext.seLinuxOptions",
		Value: mine, Want: theirs, Related: []Object{objectOf("Pod", x), objectOf("PersistentVolume", v)},
		Message: fmt.Sprintf("Pod %s waits for volume %s, which Pod %s on the same node %s has mounted with the "+
			"SELinux label %s; %s asks for %s (spec.securityContext.seLinuxOptions). Driver %s mounts with a label "+
			"(seLinuxMount), and on one node a volume has "+
			"one.", p.Name, v.Name, x.Name, p.Spec.NodeName, theirs, p.Name, mine,
			v.Spec.CSI.Driver)}
	f.Numbers = map[string]string{"label": mine, "other": theirs}
	level := labelOf(x).Level
	if metav1.GetControllerOf(p) == nil && level != "" {
		patch := fmt.Sprintf(`{"spec":{"securityContext":{"seLinuxOptions":{"level":%q}}}}`, level)
		f.Remedies = append(f.Remedies, Remedy{Say: fmt.Sprintf("give it the level of %s: %s", x.Name, level),
			Run: []string{
				kubectl(self, "get", "-o json") + " | kubectl patch --local -f - --type=merge -p " + shellquote.Quoted(
					patch) +
					" -o json | kubectl replace --force -f -"}})
	}
	f.Remedies = append(f.Remedies, Remedy{Say: "or let the runtime label files one by one: seLinuxChangePolicy " +
		"Recursive in both Pods"})
	return f
}

// mountsLabels reports whether a volume's driver mounts with SELinux labels.
func (c *Cluster) mountsLabels(v *corev1.PersistentVolume) bool {
	if v.Spec.CSI == nil {
		return false
	}
	d, ok := get[*storagev1.CSIDriver](c, "CSIDriver", "", v.Spec.CSI.Driver)
	return ok && d.Spec.SELinuxMount != nil && *d.Spec.SELinuxMount
}

// uses reports whether a Pod uses a claim.
func (c *Cluster) uses(p *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	for _, x := range c.claimsOf(p) {
		if x.Name == claim.Name && x.Namespace == claim.Namespace {
			return true
		}
	}
	return false
}

func labelOf(p *corev1.Pod) *corev1.SELinuxOptions {
	if s := p.Spec.SecurityContext; s != nil && s.SELinuxOptions != nil {
		return s.SELinuxOptions
	}
	for i := range p.Spec.Containers {
		if s := p.Spec.Containers[i].SecurityContext; s != nil && s.SELinuxOptions != nil {
			return s.SELinuxOptions
		}
	}
	return nil
}

func recursive(p *corev1.Pod) bool {
	s := p.Spec.SecurityContext
	return s != nil && s.SELinuxChangePolicy != nil && *s.SELinuxChangePolicy == corev1.SELinuxChangePolicyRecursive
}

func sameLabel(a, b *corev1.SELinuxOptions) bool { return a.Level == b.Level && a.Type == b.Type }

// labelText is a label as SELinux writes it, without the parts that are not set.
func labelText(o *corev1.SELinuxOptions) string {
	return strings.Trim(strings.Join([]string{o.User, o.Role, o.Type, o.Level}, ":"), ":")
}
