package podspec

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateAnnotations validates annotations that have a meaning for Pods. path is
// metadata.annotations.
func ValidateAnnotations(a map[string]string, s *v1.PodSpec, path *field.Path) field.ErrorList {
	j := &validator{spec: s}
	if mirror, ok := a[v1.MirrorPodAnnotationKey]; ok && s.NodeName == "" {
		j.Invalid(path.Key(v1.MirrorPodAnnotationKey), mirror, "must set spec.nodeName if mirror pod annotation is set")
	}
	if text := a[v1.TolerationsAnnotationKey]; text != "" {
		var list []v1.Toleration
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			j.Invalid(path, v1.TolerationsAnnotationKey, err.Error())
		} else {
			j.tolerations(list, path.Child(v1.TolerationsAnnotationKey))
		}
	}
	if cost, ok := a[v1.PodDeletionCost]; ok && !parseStrictInt32(cost) {
		j.Invalid(path.Key(v1.PodDeletionCost), cost, "must be a 32bit integer")
	}
	j.seccompAnnotations(a, path)
	j.appArmorAnnotations(a, path)
	return j.List()
}

// parseStrictInt32 reports whether s is an int32 without a plus sign or leading zeros.
func parseStrictInt32(s string) bool {
	_, err := strconv.ParseInt(s, 10, 32)
	return err == nil && (s == "0" || s[0] == '-' || s[0] >= '1' && s[0] <= '9')
}

// seccompAnnotations validates annotations that have no effect since v1.27, as upstream does.
func (j *validator) seccompAnnotations(a map[string]string, path *field.Path) {
	for _, k := range sets.List(sets.KeySet(a)) {
		if k != v1.SeccompPodAnnotationKey && !strings.HasPrefix(k, v1.SeccompContainerAnnotationKeyPrefix) {
			continue
		}
		switch p := a[k]; {
		case p == v1.SeccompProfileRuntimeDefault || p == v1.DeprecatedSeccompProfileDockerDefault ||
			p == v1.SeccompProfileNameUnconfined:
		case strings.HasPrefix(p, v1.SeccompLocalhostProfileNamePrefix):
			j.localDescendingPath(strings.TrimPrefix(p, v1.SeccompLocalhostProfileNamePrefix), path.Child(k))
		default:
			j.Invalid(path.Child(k), p, "must be a valid seccomp profile")
		}
	}
}

func (j *validator) appArmorAnnotations(a map[string]string, path *field.Path) {
	names := sets.New[string]()
	visitAllContainers(j.spec, func(c *v1.Container) { names.Insert(c.Name) })
	for _, k := range sets.List(sets.KeySet(a)) {
		name, ok := strings.CutPrefix(k, v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix)
		if !ok {
			continue
		}
		if !names.Has(name) {
			j.Invalid(path.Key(k), name, "container not found")
		}
		if v := a[k]; profileOf(v) == nil && v != "" && v != v1.DeprecatedAppArmorBetaProfileNamePrefix {
			j.Invalid(path.Key(k), v, fmt.Sprintf("invalid AppArmor profile name: %q", v))
		}
	}
}

// ValidateAnnotationConflicts checks that deprecated annotations and the fields that replaced them
// agree where both are set. spec is the path of the spec.
func ValidateAnnotationConflicts(a map[string]string, s *v1.PodSpec, spec *field.Path) field.ErrorList {
	j := &validator{spec: s}
	if s.SecurityContext != nil && s.SecurityContext.SeccompProfile != nil {
		j.validateSeccompConflict(a, v1.SeccompPodAnnotationKey, s.SecurityContext.SeccompProfile,
			spec.Child("securityContext"))
	}
	j.visitContainers(spec, func(c *v1.Container, p *field.Path) {
		if c.SecurityContext != nil && c.SecurityContext.SeccompProfile != nil {
			j.validateSeccompConflict(a, v1.SeccompContainerAnnotationKeyPrefix+c.Name,
				c.SecurityContext.SeccompProfile, p.Child("securityContext"))
		}
	})
	if s.OS != nil && s.OS.Name == v1.Windows {
		return j.List()
	}
	j.visitContainers(spec, func(c *v1.Container, p *field.Path) { j.validateAppArmorConflict(a, c, p) })
	return j.List()
}

// securityProfile is a seccomp or AppArmor profile: the field's type and the name of a local
// profile.
type securityProfile struct {
	kind string
	name *string
}

// validateAnnotationConflict checks that a field agrees with its annotation; what names the kind of
// profile in messages.
func (j *validator) validateAnnotationConflict(annotated, p securityProfile, what string, at *field.Path) {
	switch {
	case annotated.kind != p.kind:
		j.Forbidden(at.Child("type"), what+" type in annotation and field must match")
	case p.kind == "Localhost" && (p.name == nil || *p.name != *annotated.name):
		j.Forbidden(at.Child("localhostProfile"), what+" profile in annotation and field must match")
	}
}

func (j *validator) validateSeccompConflict(a map[string]string, key string, p *v1.SeccompProfile, path *field.Path) {
	text, ok := a[key]
	if !ok {
		return
	}
	var previous securityProfile
	switch name, local := strings.CutPrefix(text, v1.SeccompLocalhostProfileNamePrefix); {
	case local:
		previous = securityProfile{"Localhost", &name}
	case text == v1.SeccompProfileNameUnconfined:
		previous.kind = "Unconfined"
	case text == v1.SeccompProfileRuntimeDefault || text == v1.DeprecatedSeccompProfileDockerDefault:
		previous.kind = "RuntimeDefault"
	}
	switch p.Type {
	case v1.SeccompProfileTypeUnconfined, v1.SeccompProfileTypeRuntimeDefault, v1.SeccompProfileTypeLocalhost:
		j.validateAnnotationConflict(previous, securityProfile{string(p.Type), p.LocalhostProfile},
			"seccomp", path.Child("seccompProfile"))
	}
}

// validateAppArmorConflict compares a container's annotation with its own profile, or the Pod's if
// it has none.
func (j *validator) validateAppArmorConflict(a map[string]string, c *v1.Container, path *field.Path) {
	var p *v1.AppArmorProfile
	if s := j.spec.SecurityContext; s != nil {
		p = s.AppArmorProfile
	}
	if s := c.SecurityContext; s != nil && s.AppArmorProfile != nil {
		p = s.AppArmorProfile
	}
	text, ok := a[v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name]
	if !ok || p == nil {
		return
	}
	var previous securityProfile
	switch name, local := strings.CutPrefix(text, v1.DeprecatedAppArmorBetaProfileNamePrefix); {
	case local:
		previous = securityProfile{"Localhost", &name}
	case text == v1.DeprecatedAppArmorBetaProfileNameUnconfined:
		previous.kind = "Unconfined"
	case text == v1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		previous.kind = "RuntimeDefault"
	}
	switch p.Type {
	case v1.AppArmorProfileTypeUnconfined, v1.AppArmorProfileTypeRuntimeDefault, v1.AppArmorProfileTypeLocalhost:
		j.validateAnnotationConflict(previous, securityProfile{string(p.Type), p.LocalhostProfile},
			"apparmor", path.Child("securityContext").Child("appArmorProfile"))
	}
}
