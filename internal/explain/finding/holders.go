package finding

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// holding is who removes a finalizer, and what it waits for.
type holding struct {
	text     string
	related  []Object
	remedies []Remedy
}

// holds says who removes a finalizer of an object that is being deleted, and what that waits for.
func (c *Cluster) holds(o metav1.Object, self Object, finalizer string) holding {
	switch finalizer {
	case "kubernetes.io/pvc-protection":
		return c.users(self)
	case "kubernetes.io/pv-protection":
		return boundTo(o, self)
	case metav1.FinalizerDeleteDependents:
		return c.dependents(o)
	case definitionCleanup:
		return c.instances(o)
	case metav1.FinalizerOrphanDependents:
		return holding{text: "the garbage collector removes it when it has let go of what the object owns"}
	case "batch.kubernetes.io/job-tracking":
		return holding{text: "the Job controller removes it when it has counted the Pod"}
	case "service.kubernetes.io/load-balancer-cleanup":
		return holding{text: "the controller of load balancers removes it when it has taken the load balancer down"}
	case "kubernetes":
		return holding{text: "the namespace controller removes it when nothing is left in the namespace"}
	}
	if driver, ok := strings.CutPrefix(finalizer, "external-attacher/"); ok {
		return holding{text: "the attacher of driver " + driver + " removes it when the volume is detached"}
	}
	text := "whoever set it has to remove it"
	if m := managerOf(o, "f:finalizers", finalizer); m != "" {
		text = fmt.Sprintf("%s set it, and has to remove it", m)
	}
	return holding{text: text}
}

// users are the Pods that use a claim.
func (c *Cluster) users(claim Object) holding {
	h := holding{text: "the controllers remove it when no Pod uses the claim"}
	var names []string
	for _, p := range in[*corev1.Pod](c, "Pod", claim.Namespace) {
		if p.Spec.NodeName == "" {
			continue // a Pod without a node is not started any more; one that has ended counts until it is gone
		}
		if slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name
		}) {
			names = append(names, p.Name)
			h.related = append(h.related, objectOf("Pod", p))
			if p.DeletionTimestamp != nil {
				continue // it is being deleted already
			}
			h.remedies = append(h.remedies, Remedy{Say: fmt.Sprintf("end Pod %s, which uses it, or scale down what "+
				"makes it",
				p.Name), Run: []string{kubectl(objectOf("Pod", p), "delete", "")}})
		}
	}
	if len(names) > 0 {
		h.text += fmt.Sprintf("; %s use it", joined(names))
		if len(names) == 1 {
			h.text = strings.TrimSuffix(h.text, " use it") + " uses it"
		}
	}
	return h
}

// definitionCleanup is the finalizer of a CustomResourceDefinition.
const definitionCleanup = "customresourcecleanup.apiextensions.k8s.io"

// instances are the objects of a CustomResourceDefinition that is being deleted.
func (c *Cluster) instances(o metav1.Object) holding {
	h := holding{text: "the API server removes it when no object of that kind is left"}
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return h
	}
	kind, _, err := unstructured.NestedString(u.Object, "spec", "names", "kind")
	if err != nil {
		return h
	}
	var names []string
	for _, x := range c.Objects[kind] {
		at := objectOf(kind, x)
		h.related = append(h.related, at)
		names = append(names, fmt.Sprintf("%s %s%s", kind, at.Name, where(at)))
	}
	if len(names) > 0 {
		h.text += "; there is " + joined(names)
	}
	return h
}

// boundTo is the claim that a volume is bound to.
func boundTo(o metav1.Object, self Object) holding {
	h := holding{text: "the controllers remove it when no claim is bound to the volume"}
	v, ok := o.(*corev1.PersistentVolume)
	if !ok || v.Spec.ClaimRef == nil || v.Status.Phase != corev1.VolumeBound {
		return h
	}
	claim := Object{"PersistentVolumeClaim", v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name}
	h.text += fmt.Sprintf("; claim %s of namespace %s is bound to %s", claim.Name, claim.Namespace, self.Name)
	h.related = []Object{claim}
	h.remedies = []Remedy{{Say: "delete the claim: what its Pods have there goes with it", Run: []string{
		kubectl(claim, "delete", "")}}}
	return h
}

// dependents are the objects that an owner waits for, with what holds them.
func (c *Cluster) dependents(o metav1.Object) holding {
	h := holding{text: "the garbage collector removes it when what blocks the owner's deletion is gone"}
	var names []string
	for _, kind := range c.sortedKinds() {
		for _, x := range c.Objects[kind] {
			if !slices.ContainsFunc(x.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
				return r.UID == o.GetUID() && r.UID != "" && r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion
			}) {
				continue
			}
			name := kind + " " + x.GetName()
			if f := x.GetFinalizers(); len(f) > 0 && x.GetDeletionTimestamp() != nil {
				name += ", which is held by " + joined(f)
				h.remedies = append(h.remedies, finalizerRemedies(objectOf(kind, x), f)...)
			}
			names = append(names, name)
			h.related = append(h.related, objectOf(kind, x))
		}
	}
	if len(names) > 0 {
		h.text += ": " + strings.Join(names, "; ")
	}
	return h
}

// managerOf is the field manager that wrote a value into a set; empty when managedFields do not
// say.
func managerOf(o metav1.Object, set, value string) string {
	for _, m := range o.GetManagedFields() {
		if m.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Metadata map[string]json.RawMessage `json:"f:metadata"`
		}
		if json.Unmarshal(m.FieldsV1.Raw, &fields) == nil &&
			strings.Contains(string(fields.Metadata[set]), `v:\"`+value+`\"`) {
			return m.Manager
		}
	}
	return ""
}

// heldByFinalizer finds an object that is being deleted and that finalizers hold, with what they
// wait for.
func heldByFinalizer(c *Cluster, o metav1.Object, self Object) []Finding {
	if o.GetDeletionTimestamp() == nil || len(o.GetFinalizers()) == 0 || self.Kind == "Pod" ||
		c.Now.Sub(o.GetDeletionTimestamp().Time) < settleTime/2 {
		return nil
	}
	f := Finding{Code: "FinalizerHolds", Stage: StageChange, Object: self, Field: "metadata.finalizers",
		Value: strings.Join(o.GetFinalizers(), ","),
		Message: fmt.Sprintf("%s %s is being deleted and is held by %s.", self.Kind, self.Name,
			joined(o.GetFinalizers()))}
	for _, name := range o.GetFinalizers() {
		h := c.holds(o, self, name)
		f.Message += fmt.Sprintf(" %s: %s.", name, h.text)
		f.Related = append(f.Related, h.related...)
		f.Remedies = append(f.Remedies, h.remedies...)
	}
	f.Remedies = append(f.Remedies, finalizerRemedies(self, o.GetFinalizers())...)
	last := c.lastHeld(o, self)
	if slices.ContainsFunc(last, func(x Finding) bool { return x.Object == self }) {
		return []Finding{f}
	}
	for _, x := range last {
		f.Message += fmt.Sprintf(" It waits for %s %s in the end, which %s holds.", x.Object.Kind, x.Object.Name,
			x.Value)
	}
	if len(last) == 0 && c.inOrder(o) {
		f.Severity = Note
	}
	return append([]Finding{f}, last...)
}

// maxChain bounds how far the owners and dependents of an object are followed.
const maxChain = 6

// lastHeld are the objects at the end of the chain that an object waits for when it is being
// deleted: those that finalizers of others than the garbage collector hold.
func (c *Cluster) lastHeld(o metav1.Object, self Object) []Finding {
	var out []Finding
	c.walk(o, self, maxChain, func(x metav1.Object, at Object) {
		foreign := slices.DeleteFunc(slices.Clone(x.GetFinalizers()), func(s string) bool {
			return slices.Contains(ownFinalizers, s)
		})
		if len(foreign) == 0 || x.GetDeletionTimestamp() == nil {
			return
		}
		f := Finding{Code: "FinalizerHolds", Stage: StageChange, Object: at, Field: "metadata.finalizers",
			Value: strings.Join(foreign, ","), Remedies: finalizerRemedies(at, x.GetFinalizers()),
			Message: fmt.Sprintf("%s %s is being deleted and is held by %s.", at.Kind, at.Name, joined(foreign))}
		for _, name := range foreign {
			f.Message += fmt.Sprintf(" %s: %s.", name, c.holds(x, at, name).text)
		}
		if at != self {
			f.Related = []Object{self}
		}
		out = append(out, f)
	})
	return out
}

// walk visits an object, and what blocks its deletion, and so on.
func (c *Cluster) walk(o metav1.Object, self Object, depth int, visit func(metav1.Object, Object)) {
	visit(o, self)
	if depth == 0 || o.GetDeletionTimestamp() == nil {
		return
	}
	for _, finalizer := range o.GetFinalizers() {
		if !slices.Contains(waitFinalizers, finalizer) {
			continue
		}
		for _, to := range c.holds(o, self, finalizer).related {
			if x := c.Get(to); x != nil {
				c.walk(x, to, depth-1, visit)
			}
		}
	}
}

// waitFinalizers are those that wait for other objects to go.
var waitFinalizers = []string{metav1.FinalizerDeleteDependents, "kubernetes.io/pvc-protection", definitionCleanup}

// inOrder reports whether all that an object waits for are Pods within their grace: they are given
// until their deletion's time, and some seconds.
func (c *Cluster) inOrder(o metav1.Object) bool {
	pods, rest := 0, 0
	c.walk(o, Object{}, maxChain, func(x metav1.Object, _ Object) {
		gc := !slices.ContainsFunc(x.GetFinalizers(),
			func(s string) bool { return s != metav1.FinalizerDeleteDependents })
		p, isPod := x.(*corev1.Pod)
		switch {
		case isPod && p.DeletionTimestamp != nil && gc && c.Now.Before(p.DeletionTimestamp.Add(settleTime)):
			pods++
		case isPod || !gc || x.GetDeletionTimestamp() == nil:
			rest++
		}
	})
	return pods > 0 && rest == 0
}
