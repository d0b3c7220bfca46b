package finding

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/pod"
)

// anotherClaim adds to a finding about a claim that is being deleted which other claim would do:
// one that is bound, that no Pod uses, of the same class, with all of its modes and at least its
// size. A deletion cannot be taken back.
func (c *Cluster) anotherClaim(f *Finding, self Object, r Reference) {
	gone, ok := c.Get(r.To).(*corev1.PersistentVolumeClaim)
	if !ok {
		return
	}
	f.Message += " A deletion cannot be taken back: the Pod needs another claim"
	for _, x := range in[*corev1.PersistentVolumeClaim](c, "PersistentVolumeClaim", r.To.Namespace) {
		if x.Name == gone.Name || !replaces(x, gone) || c.inUse(x) {
			continue
		}
		f.Want = x.Name
		f.Message += fmt.Sprintf(", for instance %s, which is bound and which no Pod uses.", x.Name)
		f.Remedies = append([]Remedy{{Say: fmt.Sprintf("use claim %s instead: it has data of its own", x.Name),
			Run: c.replaceCommand(self, r.Field, x.Name)}}, f.Remedies...)
		return
	}
	f.Message += "."
}

// replaces reports whether a claim can stand in for one that is being deleted.
func replaces(x, gone *corev1.PersistentVolumeClaim) bool {
	have, want := x.Status.Capacity[corev1.ResourceStorage], gone.Spec.Resources.Requests[corev1.ResourceStorage]
	if x.DeletionTimestamp != nil || x.Status.Phase != corev1.ClaimBound || have.Cmp(want) < 0 ||
		ptr.Deref(x.Spec.StorageClassName, "") != ptr.Deref(gone.Spec.StorageClassName, "") {
		return false
	}
	return !slices.ContainsFunc(gone.Spec.AccessModes,
		func(m corev1.PersistentVolumeAccessMode) bool { return !slices.Contains(x.Spec.AccessModes, m) })
}

// inUse reports whether a Pod that has not ended names a claim, also as that of an ephemeral
// volume.
func (c *Cluster) inUse(x *corev1.PersistentVolumeClaim) bool {
	key := x.Namespace + "/" + x.Name
	return slices.ContainsFunc(in[*corev1.Pod](c, "Pod", x.Namespace), func(p *corev1.Pod) bool {
		return !pod.IsTerminal(p) && slices.Contains(pod.ClaimKeys(p), key)
	})
}
