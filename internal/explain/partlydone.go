package explain

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// partlyDone tells of a Pod that is not started anew and of which some containers have done their
// work and others still run: it is not ready, and nothing is wrong with that.
func partlyDone(in In) *Answer {
	p := in.Pod
	if p == nil || p.DeletionTimestamp != nil || p.Spec.RestartPolicy == corev1.RestartPolicyAlways ||
		p.Status.Phase != corev1.PodRunning {
		return nil
	}
	var done, running []string
	a := &Answer{State: "running"}
	for _, c := range containers(p) {
		switch {
		case c.init:
		case c.status == nil:
			return nil
		case c.status.State.Terminated != nil && c.status.State.Terminated.ExitCode == 0:
			done = append(done, c.spec.Name)
			a.Since = c.status.State.Terminated.FinishedAt.Time
		case c.status.State.Running == nil || !c.status.Ready:
			return nil
		default:
			running = append(running, c.spec.Name)
		}
	}
	if len(done) == 0 || len(running) == 0 {
		return nil
	}
	a.Cause = fmt.Sprintf("Of its containers %s ended with exit code 0, and %s still runs. The Pod ends when all have "+
		"ended; only a sidecar (an init container with restartPolicy Always) ends with the others.", joinList(done),
		joinList(running))
	a.Fixes = sidecarFix(in, running)
	return a
}

// sidecarFix makes containers that run on the sidecars of those that have ended: they are then
// ended with them.
func sidecarFix(in In, names []string) []Fix {
	always := corev1.ContainerRestartPolicyAlways
	return []Fix{editedPodFix(in, fmt.Sprintf("if %s only serves the others, make it a sidecar, which ends with "+
		"them: an init container with restartPolicy Always", joinList(names)), func(s *corev1.PodSpec) {
		for _, c := range slices.Clone(s.Containers) {
			if slices.Contains(names, c.Name) {
				c.RestartPolicy = &always
				s.InitContainers = append(slices.Clone(s.InitContainers), c)
			}
		}
		s.Containers = slices.DeleteFunc(slices.Clone(s.Containers), func(c corev1.Container) bool {
			return slices.Contains(names, c.Name)
		})
	})}
}
