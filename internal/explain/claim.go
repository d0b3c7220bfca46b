package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// claimMissing explains a volume whose PersistentVolumeClaim does not exist, and names a similar
// one.
func claimMissing(a *Answer, in In, text string) {
	m := claimPattern.FindStringSubmatch(text)
	if m == nil {
		return
	}
	name := m[1]
	a.Cause = fmt.Sprintf("The claim %s does not exist (not found)", name)
	for _, v := range in.Pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == name {
			a.Cause = fmt.Sprintf("Volume %s wants the claim %s, which does not exist (not found)", v.Name, name)
		}
	}
	a.Cause += ": no node is looked at before it does."
	if in.NamespaceContext != nil {
		near := nearestName(name, in.NamespaceContext.Claims)
		if near == "" && len(in.NamespaceContext.Claims) == 1 {
			near = in.NamespaceContext.Claims[0]
		}
		if near != "" {
			a.Cause += fmt.Sprintf(" There is a claim %s: perhaps that was meant.", near)
			a.Fixes = append(a.Fixes, editedPodFix(in, "use the claim "+near, func(s *corev1.PodSpec) {
				for i := range s.Volumes {
					if c := s.Volumes[i].PersistentVolumeClaim; c != nil && c.ClaimName == name {
						c.ClaimName = near
					}
				}
			}))
		}
	}
	a.Fixes = append(a.Fixes,
		Fix{Description: fmt.Sprintf("or create the claim %s: the Pod is tried again at once", name)})
}
