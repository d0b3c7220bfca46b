package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// user is the number that a container runs as, and the field that says it.
type user struct {
	uid   int64
	field string
}

// text is the number of a user that is not root, with a space before it; else empty.
func (u user) text() string {
	if u.uid == 0 {
		return ""
	}
	return fmt.Sprintf(" %d (%s)", u.uid, u.field)
}

// modeForbids is the mode of a volume's files, or the missing group, that keeps a user from them.
func modeForbids(in In, m corev1.VolumeMount, file string, u user) (restriction, bool) {
	uid := u.uid
	for i, v := range in.Pod.Spec.Volumes {
		if v.Name != m.Name {
			continue
		}
		var mode *int32
		kind := ""
		switch {
		case v.Secret != nil:
			mode, kind = v.Secret.DefaultMode, "secret"
		case v.ConfigMap != nil:
			mode, kind = v.ConfigMap.DefaultMode, "configMap"
		case v.Projected != nil:
			mode, kind = v.Projected.DefaultMode, "projected"
		}
		if r, ok := itemMode(in, m, i, file); ok {
			return r, true
		}
		if have := ptr.Deref(mode, 0o644); kind != "" && have&0o111 == 0 && have&0o004 != 0 {
			return notExecutable(in, i, file, have), true
		}
		if kind != "" && mode != nil && *mode&0o004 == 0 {
			return restriction{field: fmt.Sprintf("spec.volumes[%d].%s.defaultMode", i, kind), value: fmt.Sprint(*mode),
				want: "420", text: fmt.Sprintf("Volume %s at %s has mode %04o, which keeps its user%s from %s.", v.Name,
					m.MountPath, *mode, u.text(), file), fixes: []Fix{editedPodFix(in,
					"open the files to others: defaultMode 0644",
					func(s *corev1.PodSpec) {
						setMode(&s.Volumes[i], 0o644)
					})}}, true
		}
		if v.HostPath != nil && uid != 0 {
			return hostPathRestriction(in, m, i, u), true
		}
		s := in.Pod.Spec.SecurityContext
		if kind == "" && uid != 0 && (s == nil || s.FSGroup == nil) {
			return restriction{field: "spec.securityContext.fsGroup", want: fmt.Sprint(uid), text: fmt.Sprintf(
				"Volume %s at %s belongs to root, and the container runs as user %d: no fsGroup gives it to that one.",
				v.Name, m.MountPath, uid), fixes: []Fix{editedPodFix(in, fmt.Sprintf("give the volumes to group %d",
				uid),
				func(s *corev1.PodSpec) {
					if s.SecurityContext == nil {
						s.SecurityContext = &corev1.PodSecurityContext{}
					}
					s.SecurityContext.FSGroup = &uid
				})}}, true
		}
	}
	return restriction{}, false
}

// setMode sets the mode of a volume's files.
func setMode(v *corev1.Volume, mode int32) {
	switch {
	case v.Secret != nil:
		v.Secret.DefaultMode = &mode
	case v.ConfigMap != nil:
		v.ConfigMap.DefaultMode = &mode
	case v.Projected != nil:
		v.Projected.DefaultMode = &mode
	}
}
