package whatif

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Commands returns the shell commands that change a Pod's spec from was to now, in order: a patch
// of its template, or recreation of the Pod. None if the owner's template is immutable.
func Commands(was, now *v1.Pod) []string { return podCommands(OwnerOf(was), was, now) }

// Quoted quotes s for the shell.
func Quoted(s string) string { return quoted(s) }

// plainLetters are those that no shell takes for more than themselves.
const plainLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,"

// Word returns s as one word for a shell, in quotes only where it needs them.
func Word(s string) string {
	if s != "" && strings.Trim(s, plainLetters) == "" {
		return s
	}
	return quoted(s)
}

// Words returns all as words for a shell.
func Words(all []string) string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = Word(s)
	}
	return strings.Join(out, " ")
}

// Patch returns the strategic merge patch from was to now; empty if they are equal.
func Patch(was, now *v1.Pod) string {
	p, err := specPatch(was, now)
	if err != nil {
		return ""
	}
	return p
}
