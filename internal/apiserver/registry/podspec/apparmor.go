package podspec

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// longestProfile is how many bytes the name of a profile may have.
const longestProfile = 4095

// SyncAppArmor sets the appArmorProfile of each container whose profile only the deprecated
// annotation names, in Linux Pods.
func SyncAppArmor(p *v1.Pod) {
	if p.Spec.OS != nil && p.Spec.OS.Name == v1.Windows {
		return
	}
	whole := podAppArmor(&p.Spec)
	visitAllContainers(&p.Spec, func(c *v1.Container) {
		text, has := p.Annotations[v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name]
		if !has || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			return
		}
		profile := usableProfile(text)
		if profile == nil || whole != nil && apiequality.Semantic.DeepEqual(profile, whole) {
			return
		}
		if c.SecurityContext == nil {
			c.SecurityContext = &v1.SecurityContext{}
		}
		c.SecurityContext.AppArmorProfile = profile
	})
}

// podAppArmor returns the profile of the whole Pod; nil for none.
func podAppArmor(s *v1.PodSpec) *v1.AppArmorProfile {
	if s.SecurityContext == nil {
		return nil
	}
	return s.SecurityContext.AppArmorProfile
}

// usableProfile is profileOf, and nil for a profile that the field may not have.
func usableProfile(text string) *v1.AppArmorProfile {
	p := profileOf(text)
	if p != nil && p.LocalhostProfile != nil &&
		(strings.TrimSpace(*p.LocalhostProfile) != *p.LocalhostProfile || len(*p.LocalhostProfile) > longestProfile) {
		return nil
	}
	return p
}

// profileOf parses the annotation's value; nil for an unknown form.
func profileOf(text string) *v1.AppArmorProfile {
	switch {
	case text == v1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}
	case text == v1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}
	case strings.HasPrefix(text, v1.DeprecatedAppArmorBetaProfileNamePrefix):
		name := strings.TrimPrefix(text, v1.DeprecatedAppArmorBetaProfileNamePrefix)
		if name != "" {
			return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
		}
	}
	return nil
}
