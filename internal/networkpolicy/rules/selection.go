package rules

import (
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
)

// PodPolicies are the names of the policies that select a Pod, by direction, sorted; none: the
// direction is not isolated.
type PodPolicies struct{ Ingress, Egress []string }

// Unrestricted reports whether no policy selects the Pod.
func (r PodPolicies) Unrestricted() bool { return len(r.Ingress) == 0 && len(r.Egress) == 0 }

// Equal reports whether r and o are the same.
func (r PodPolicies) Equal(o PodPolicies) bool {
	return slices.Equal(r.Ingress, o.Ingress) && slices.Equal(r.Egress, o.Egress)
}

// PoliciesByPod returns the policies that select each known Pod of this node, as Build applies
// them. Pods that no policy selects are left out.
func PoliciesByPod(in In) map[PodID]PodPolicies {
	out := map[PodID]PodPolicies{}
	for _, p := range in.Pods {
		if !p.Local || p.Unknown {
			continue
		}
		var r PodPolicies
		for _, policy := range in.Policies {
			if policy == nil || policy.Namespace != p.Namespace || !Selects(&policy.Spec.PodSelector, p.Labels) {
				continue
			}
			if Applies(policy, networkingv1.PolicyTypeIngress) {
				r.Ingress = append(r.Ingress, policy.Name)
			}
			if Applies(policy, networkingv1.PolicyTypeEgress) {
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
