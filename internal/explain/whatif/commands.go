package whatif

import v1 "k8s.io/api/core/v1"

// Commands gives the shell commands that turn a Pod's specification into an edited one, in order: a
// patch of the template it was made from, or the Pod made anew. None when its owner's template
// cannot be changed.
func Commands(was, now *v1.Pod) []string { return podCommands(OwnerOf(was), was, now) }

// Quoted is a text as one word for the shell.
func Quoted(s string) string { return quoted(s) }

// Patch is the strategic merge patch from a Pod's specification to an edited one; empty when there
// is none.
func Patch(was, now *v1.Pod) string {
	p, err := specPatch(was, now)
	if err != nil {
		return ""
	}
	return p
}
