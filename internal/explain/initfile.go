package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// deadlock is how a cause begins that an init container waits for what starts after it.
const deadlock = "Deadlock by order: "

// orderFinding is such a cause as data: the init container that runs is to blame.
func orderFinding(in In, a Answer) (finding.Finding, bool) {
	if !strings.HasPrefix(a.Cause, deadlock) {
		return finding.Finding{}, false
	}
	for _, c := range containers(in.Pod) {
		if c.init && c.status != nil && c.status.State.Running != nil && strings.Contains(a.Cause,
			"init container "+c.spec.Name+" ") {
			return finding.Finding{Code: "InitOrder", Stage: finding.StageRun, Object: in.object(),
				Field: pathOf(in.Pod, c), Value: c.spec.Name, Message: a.Cause, Remedies: asRemedies(a.Fixes)}, true
		}
	}
	return finding.Finding{}, false
}

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
	a.Cause = fmt.Sprintf(deadlock+"init container %s (number %d) waits for %s of volume %s, which beside it "+
		"only %s mounts, and that is started only after %s has succeeded. Waiting never ends it.", c.spec.Name, at+1,
		m[1], mount.Name, joinList(later), c.spec.Name)
	a.Fixes = append(a.Fixes, jsonPatchFix(in, fmt.Sprintf("do without %s: let the program itself wait for what it "+
		"needs", c.spec.Name), op{Op: "remove", Path: fmt.Sprintf("/initContainers/%d", at)}))
	return true
}
