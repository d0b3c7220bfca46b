package whatif

import v1 "k8s.io/api/core/v1"

// Commands returns the shell commands that change a Pod's spec from was to now, in order: a patch
// of its template, or recreation of the Pod. None if the owner's template is immutable.
func Commands(was, now *v1.Pod) []string { return podCommands(OwnerOf(was), was, now) }

// Patch returns the strategic merge patch from was to now; empty if they are equal.
func Patch(was, now *v1.Pod) string {
	p, err := specPatch(was, now)
	if err != nil {
		return ""
	}
	return p
}
