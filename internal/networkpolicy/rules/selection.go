package rules

import (
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
)

// PodPolicies names the policies that rule over a Pod, in each direction, sorted; none: nothing is
// kept from it.
type PodPolicies struct{ Ingress, Egress []string }

// Unrestricted tells that no policy rules over the Pod.
func (r PodPolicies) Unrestricted() bool { return len(r.Ingress) == 0 && len(r.Egress) == 0 }

// Equal tells whether both are the same.
func (r PodPolicies) Equal(o PodPolicies) bool {
	return slices.Equal(r.Ingress, o.Ingress) && slices.Equal(r.Egress, o.Egress)
}

// PoliciesByPod tells for each Pod that is here and known which policies rule over it: the same
// choice that Build makes. Free Pods are left out.
func PoliciesByPod(in In) map[PodID]PodPolicies {
	out := map[PodID]PodPolicies{}
	for _, p := range in.Pods {
		if !p.Local || p.Unknown {
			continue
		}
		var r PodPolicies
		for _, policy := range in.Policies {
			if policy == nil || policy.Namespace != p.Namespace || !selects(&policy.Spec.PodSelector, p.Labels) {
				continue
			}
			if applies(policy, networkingv1.PolicyTypeIngress) {
				r.Ingress = append(r.Ingress, policy.Name)
			}
			if applies(policy, networkingv1.PolicyTypeEgress) {
				r.Egress = append(r.Egress, policy.Name)
			}
		}
		slices.Sort(r.Ingress)
		slices.Sort(r.Egress)
		if !r.Unrestricted() {
			out[PodID{p.Namespace, p.Name, p.UID}] = r
		}
	}
	return out
}
