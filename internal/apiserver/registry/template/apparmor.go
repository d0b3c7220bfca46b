package template

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// SyncAppArmor keeps the two forms of an AppArmor profile telling the same for Linux Pods: the field where only the old annotation is set, and
// the annotation where only the field is set, for nodes and tools of either age.
func SyncAppArmor(p *v1.Pod) {
	if p.Spec.OS != nil && p.Spec.OS.Name == v1.Windows {
		return
	}
	var podProfile *v1.AppArmorProfile
	if p.Spec.SecurityContext != nil {
		podProfile = p.Spec.SecurityContext.AppArmorProfile
	}
	if p.Spec.SecurityContext == nil && len(p.Annotations) == 0 {
		return
	}
	eachAny(&p.Spec, func(c *v1.Container) {
		key := v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + c.Name
		annotated, has := p.Annotations[key]
		var own *v1.AppArmorProfile
		if c.SecurityContext != nil {
			own = c.SecurityContext.AppArmorProfile
		}
		switch {
		case has && own == nil:
			if profile := profileOf(annotated); profile != nil && !(podProfile != nil && *profile == *podProfile) {
				if c.SecurityContext == nil {
					c.SecurityContext = &v1.SecurityContext{}
				}
				c.SecurityContext.AppArmorProfile = profile
			}
		case !has:
			if own == nil {
				own = podProfile
			}
			if text := annotationOf(own); text != "" {
				if p.Annotations == nil {
					p.Annotations = map[string]string{}
				}
				p.Annotations[key] = text
			}
		}
	})
}

// profileOf reads the annotation's value; nil when it is none of the known forms.
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

// annotationOf writes a profile in the annotation's form.
func annotationOf(p *v1.AppArmorProfile) string {
	if p == nil {
		return ""
	}
	switch p.Type {
	case v1.AppArmorProfileTypeUnconfined:
		return v1.DeprecatedAppArmorBetaProfileNameUnconfined
	case v1.AppArmorProfileTypeRuntimeDefault:
		return v1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case v1.AppArmorProfileTypeLocalhost:
		if p.LocalhostProfile != nil {
			return v1.DeprecatedAppArmorBetaProfileNamePrefix + *p.LocalhostProfile
		}
	}
	return ""
}
