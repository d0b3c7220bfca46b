package explain

import (
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// testedFile matches how a script asks whether a file is there; the group is its path.
var testedFile = regexp.MustCompile(`(?:\btest|\[)\s+(?:!\s+)?-[defrs]\s+["']?(/[A-Za-z0-9._/-]*[A-Za-z0-9_-])`)

// fileDeadlock explains an init container that waits for a file of a volume which, beside it, only
// containers mount that start after it.
func fileDeadlock(a *Answer, in In, c container) bool {
	m := testedFile.FindStringSubmatch(commandLine(c.spec))
	if m == nil {
		return false
	}
	mount, ok := mountOf(c, m[1])
	spec := &in.Pod.Spec
	at := slices.IndexFunc(spec.InitContainers, func(x corev1.Container) bool { return x.Name == c.spec.Name })
	if !ok || at < 0 || !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
		return v.Name == mount.Name && v.EmptyDir != nil
	}) {
		return false
	}
	mounts := func(x corev1.Container) bool {
		return slices.ContainsFunc(x.VolumeMounts, func(v corev1.VolumeMount) bool { return v.Name == mount.Name })
	}
	if slices.ContainsFunc(spec.InitContainers[:at], mounts) {
		return false
	}
	var later []string
	for _, x := range slices.Concat(spec.InitContainers[at+1:], spec.Containers) {
		if mounts(x) {
			later = append(later, x.Name)
		}
	}
	if len(later) == 0 {
		return false
	}
	a.Cause = fmt.Sprintf("Deadlock by order: init container %s (number %d) waits for %s of volume %s, which beside it "+
		"only %s mounts, and that is started only after %s has succeeded. Waiting never ends it.", c.spec.Name, at+1,
		m[1], mount.Name, joinList(later), c.spec.Name)
	a.Fixes = append(a.Fixes, jsonPatchFix(in, fmt.Sprintf("do without %s: let the program itself wait for what it "+
		"needs", c.spec.Name), op{Op: "remove", Path: fmt.Sprintf("/initContainers/%d", at)}))
	return true
}
