package validatingadmissionpolicystatus

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	applyadmissionv1 "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
)

// IsDue tells that a policy has changed since its types were checked.
func IsDue(p *admissionv1.ValidatingAdmissionPolicy) bool {
	return p.Generation > p.Status.ObservedGeneration
}

// StatusOf returns what to apply to a policy's status; it replaces the warnings of the generation
// before.
func StatusOf(p *admissionv1.ValidatingAdmissionPolicy,
	warnings []admissionv1.ExpressionWarning) *applyadmissionv1.ValidatingAdmissionPolicyApplyConfiguration {
	checked := applyadmissionv1.TypeChecking()
	for _, w := range warnings {
		checked.WithExpressionWarnings(
			applyadmissionv1.ExpressionWarning().WithFieldRef(w.FieldRef).WithWarning(w.Warning))
	}
	return applyadmissionv1.ValidatingAdmissionPolicy(p.Name).WithStatus(
		applyadmissionv1.ValidatingAdmissionPolicyStatus().WithObservedGeneration(p.Generation).
			WithTypeChecking(checked))
}
