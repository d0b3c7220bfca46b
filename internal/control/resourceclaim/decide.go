package resourceclaim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// PodClaimAnnotation names the Pod's entry for which a claim was created.
const PodClaimAnnotation = "resource.kubernetes.io/pod-claim-name"

// NewClaim returns the claim for an entry of a Pod, from its template.
func NewClaim(p *corev1.Pod, entry string, t *resourceapi.ResourceClaimTemplate) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{Spec: *t.Spec.Spec.DeepCopy(), ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, GenerateName: p.Name + "-" + entry + "-", Labels: t.Spec.Labels,
		Annotations: map[string]string{},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID,
			Controller: new(true), BlockOwnerDeletion: new(true)}},
	}}
	for k, v := range t.Spec.Annotations {
		c.Annotations[k] = v
	}
	c.Annotations[PodClaimAnnotation] = entry
	return c
}

// FindClaim returns, among the claims of the namespace, the one created for an entry of a Pod; nil
// if there is none.
func FindClaim(p *corev1.Pod, entry string, all []*resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	for _, c := range all {
		if c.Annotations[PodClaimAnnotation] == entry && c.DeletionTimestamp == nil && metav1.IsControlledBy(c, p) {
			return c
		}
	}
	return nil
}

// Update is what to do with a claim. The steps are carried out in order.
type Update struct {
	Status          bool // write status: ReservedFor, and no allocation with Deallocate
	ReservedFor     []resourceapi.ResourceClaimConsumerReference
	Deallocate      bool // the devices are not needed any more
	RemoveFinalizer bool // remove the finalizer
	Delete          bool // its Pod will not use it (again)
}

// Decide returns what to do with a claim. lives reports whether a Pod of that name and uid still
// has to run.
func Decide(c *resourceapi.ResourceClaim, lives func(name, uid string) bool) Update {
	var n Update
	for _, r := range c.Status.ReservedFor {
		// other kinds of users maintain their own entries
		if r.APIGroup != "" || r.Resource != "pods" || lives(r.Name, string(r.UID)) {
			n.ReservedFor = append(n.ReservedFor, r)
		}
	}
	held := slices.Contains(c.Finalizers, resourceapi.Finalizer)
	if len(n.ReservedFor) < len(c.Status.ReservedFor) {
		n.Status = true
	}
	if len(n.ReservedFor) == 0 && held && (n.Status || c.DeletionTimestamp != nil) {
		n.Deallocate = c.Status.Allocation != nil
		n.Status = n.Status || n.Deallocate
		n.RemoveFinalizer = true
	}
	if len(n.ReservedFor) == 0 && c.DeletionTimestamp == nil {
		if owner := metav1.GetControllerOf(c); owner != nil && owner.APIVersion == "v1" && owner.Kind == "Pod" {
			n.Delete = !lives(owner.Name, string(owner.UID))
		}
	}
	return n
}

// NeedsClaims reports whether a Pod still has to run, so that its claims are needed.
func NeedsClaims(p *corev1.Pod) bool {
	return !pod.IsTerminal(p) && (p.DeletionTimestamp == nil || p.Spec.NodeName != "")
}
