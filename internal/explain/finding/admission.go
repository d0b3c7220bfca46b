package finding

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// matchesOf are what an admission policy or its binding is about, with the field's path.
func matchesOf(o metav1.Object) (m *admissionv1.MatchResources, at string) {
	switch x := o.(type) {
	case *admissionv1.ValidatingAdmissionPolicy:
		return x.Spec.MatchConstraints, "spec.matchConstraints"
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		return x.Spec.MatchResources, "spec.matchResources"
	case *admissionv1.MutatingAdmissionPolicy:
		return x.Spec.MatchConstraints, "spec.matchConstraints"
	case *admissionv1.MutatingAdmissionPolicyBinding:
		return x.Spec.MatchResources, "spec.matchResources"
	}
	return nil, ""
}

// admissionMatches finds admission policies and bindings about namespaces and resources that there
// are not: they never check anything.
func admissionMatches(c *Cluster, o metav1.Object, self Object) []Finding {
	m, at := matchesOf(o)
	if m == nil {
		return nil
	}
	var out []Finding
	for i, r := range m.ResourceRules {
		for j, name := range r.Resources {
			if f, ok := c.servedBy(self, name, r.APIGroups, ruleAt{fmt.Sprintf("%s.resourceRules[%d]", at, i), j}); ok {
				out = append(out, f)
			}
		}
	}
	s, err := metav1.LabelSelectorAsSelector(m.NamespaceSelector)
	want := wantedLabels(m.NamespaceSelector)
	among := c.labelledNamespaces()
	if len(want) == 0 || err != nil || !c.Read("Namespace") || slices.ContainsFunc(among, func(x labelled) bool {
		return s.Matches(labels.Set(x.labels))
	}) {
		return out
	}
	f := Finding{Code: "SelectsNothing", Severity: Threat, Stage: StageCreation, Object: self,
		Field: at + ".namespaceSelector", Value: s.String(), Message: fmt.Sprintf("%s %s is about namespaces with %s, "+
			"and there is none: it is asked about no object of a namespace.", self.Kind, self.Name, s)}
	if d, ok := nearestLabels(want, among); ok {
		f.describe(d)
		f.Remedies = []Remedy{c.selectIn(self, f.Field, m.NamespaceSelector, d)}
	}
	return append(out, f)
}

// mutatingPolicy finds a MutatingAdmissionPolicy that nothing binds.
func mutatingPolicy(c *Cluster, o metav1.Object, self Object) []Finding {
	if !c.Read("MutatingAdmissionPolicyBinding") || slices.ContainsFunc(
		list[*admissionv1.MutatingAdmissionPolicyBinding](c, "MutatingAdmissionPolicyBinding"),
		func(b *admissionv1.MutatingAdmissionPolicyBinding) bool { return b.Spec.PolicyName == o.GetName() }) {
		return nil
	}
	return []Finding{{Code: "PolicyUnbound", Severity: Threat, Stage: StageCreation, Object: self,
		Field: "metadata.name",
		Value: self.Name, Message: fmt.Sprintf("No MutatingAdmissionPolicyBinding names policy %s: it changes nothing.",
			self.Name)}}
}
