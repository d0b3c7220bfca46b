package validatingadmissionpolicystatus

import admissionv1 "k8s.io/api/admissionregistration/v1"

// IsDue tells that a policy has changed since its types were checked.
func IsDue(p *admissionv1.ValidatingAdmissionPolicy) bool {
	return p.Generation > p.Status.ObservedGeneration
}
