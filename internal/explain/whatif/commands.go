package whatif

import v1 "k8s.io/api/core/v1"

// Commands returns the shell commands that change a Pod's spec from was to now, in order: a patch
// of its template, or recreation of the Pod or of the Job that made it.
func Commands(was, now *v1.Pod) []string { return podCommands(OwnerOf(was), was, now) }

// Patch returns the strategic merge patch of a template from was to now; empty if they are equal.
func Patch(was, now *v1.Pod) string {
	was, now = withoutInjected(was), withoutInjected(now)
	p, err := specPatch(was, now)
	if err != nil {
		return ""
	}
	return p
}
