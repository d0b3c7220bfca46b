package explain

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// noSeccompProfile matches a runtime's words for a profile that its node does not have.
var noSeccompProfile = regexp.MustCompile(`cannot load seccomp profile "([^"]+)"`)

// profileMissing explains a security profile that a container names and its node does not have;
// false where the words are about something else.
func profileMissing(a *Answer, in In, c container, words string) bool {
	m := noSeccompProfile.FindStringSubmatch(words)
	if m == nil {
		return false
	}
	at := pathOf(in.Pod, c)
	field, name := "", ""
	if s := c.spec.SecurityContext; s != nil && s.SeccompProfile != nil && s.SeccompProfile.LocalhostProfile != nil {
		field, name = at+".securityContext.seccompProfile.localhostProfile", *s.SeccompProfile.LocalhostProfile
	} else if s := in.Pod.Spec.SecurityContext; s != nil && s.SeccompProfile != nil &&
		s.SeccompProfile.LocalhostProfile != nil {
		field, name = "spec.securityContext.seccompProfile.localhostProfile", *s.SeccompProfile.LocalhostProfile
	}
	if name == "" {
		return false
	}
	a.Cause = fmt.Sprintf("%s cannot be made: it asks for the seccomp profile %s (%s, type Localhost), and node %s "+
		"has no file %s.", c.title(), name, field, in.Pod.Spec.NodeName, m[1])
	a.Fixes = []Fix{{Description: fmt.Sprintf("put the profile on node %s, and on each other where the Pod may run, "+
		"as %s", in.Pod.Spec.NodeName, m[1])},
		editedPodFix(in, "or use the runtime's own profile: seccompProfile type RuntimeDefault",
			func(s *corev1.PodSpec) {
				own := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
				if x := s.SecurityContext; x != nil && x.SeccompProfile != nil &&
					x.SeccompProfile.LocalhostProfile != nil {
					x.SeccompProfile = own
				}
				for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
					for i := range list {
						if x := list[i].SecurityContext; x != nil && x.SeccompProfile != nil &&
							x.SeccompProfile.LocalhostProfile != nil {
							x.SeccompProfile = own
						}
					}
				}
			})}
	a.Findings = append(a.Findings, finding.Finding{Code: "ProfileMissing", Stage: finding.StageRun,
		Object: in.object(),
		Field:  field, Value: name, Message: a.Cause, Remedies: asRemedies(a.Fixes)})
	return true
}
