package admit

import (
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/reason"
)

// appArmor refuses a Pod that asks for a profile where the kernel enforces none: it would run
// unconfined.
func appArmor(in In) *reason.Refusal {
	if in.AppArmor || !wantsAppArmor(in.Pod) {
		return nil
	}
	return &reason.Refusal{
		Code: reason.AdmitAppArmor, Detail: "Cannot enforce AppArmor: AppArmor is not enabled on the host",
		Fix: "enable AppArmor on the node, place the Pod on a node that has it, or take appArmorProfile out of the Pod",
	}
}

// wantsAppArmor tells whether any container asks for an AppArmor profile, by itself or by its Pod.
func wantsAppArmor(pod *v1.Pod) bool {
	asks := func(p *v1.AppArmorProfile) bool { return p != nil && p.Type != v1.AppArmorProfileTypeUnconfined }
	if sc := pod.Spec.SecurityContext; sc != nil && asks(sc.AppArmorProfile) {
		return true
	}
	of := func(sc *v1.SecurityContext) bool { return sc != nil && asks(sc.AppArmorProfile) }
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if of(list[i].SecurityContext) {
				return true
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if of(pod.Spec.EphemeralContainers[i].SecurityContext) {
			return true
		}
	}
	return false
}

// supplementalGroups refuses supplementalGroupsPolicy Strict where the runtime would merge the
// image's groups in all the same.
func supplementalGroups(in In) *reason.Refusal {
	sc := in.Pod.Spec.SecurityContext
	if in.Node == nil || sc == nil || sc.SupplementalGroupsPolicy == nil ||
		*sc.SupplementalGroupsPolicy != v1.SupplementalGroupsPolicyStrict {
		return nil
	}
	if f := in.Node.Status.Features; f != nil && f.SupplementalGroupsPolicy != nil && *f.SupplementalGroupsPolicy {
		return nil
	}
	return &reason.Refusal{
		Code: reason.AdmitGroups, Detail: "SupplementalGroupsPolicy=Strict is not supported in this node",
		Fix: "place the Pod on a node whose status.features.supplementalGroupsPolicy is true, or use Merge",
	}
}
