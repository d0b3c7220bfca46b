package explain

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Ended lists the containers that ended otherwise than with 0, and whether that was the run before the present one.
func Ended(p *corev1.Pod) map[string]bool {
	out := map[string]bool{}
	for _, c := range containers(p) {
		switch {
		case c.status == nil:
		case c.status.State.Terminated != nil && c.status.State.Terminated.ExitCode != 0:
			out[c.spec.Name] = false
		case c.status.State.Terminated == nil && c.status.LastTerminationState.Terminated != nil && c.status.LastTerminationState.Terminated.ExitCode != 0:
			out[c.spec.Name] = true
		}
	}
	return out
}

// unset are last words about a variable that is wanted.
var unset = regexp.MustCompile(`\b([A-Z][A-Z0-9_]{2,})\b["':]*(?: (?:is|was|must be|has to be|environment variable|env var|variable))*:? (?:not set|unset|not defined|undefined|required|missing|set|empty)\b`)

// lastWords adds what a container said before its end, and what may be read from it.
func lastWords(a *Answer, in In, c container) {
	words := strings.TrimSpace(in.Words[c.spec.Name])
	if words == "" {
		return
	}
	for _, line := range strings.Split(words, "\n") {
		a.Facts = append(a.Facts, "it said: "+line)
	}
	if unresolved(a, in, c, words) {
		return
	}
	m := unset.FindStringSubmatch(words)
	if m == nil {
		return
	}
	for _, e := range c.spec.Env {
		if e.Name == m[1] {
			return
		}
	}
	a.Cause += fmt.Sprintf(" It says that %s is wanted, and the container has no such variable.", m[1])
	a.Fixes = append([]Fix{editedContainer(in, c.spec.Name, fmt.Sprintf("set %s; the value is yours to fill in, CHANGE-ME stands for it", m[1]), func(x *corev1.Container) {
		x.Env = append(x.Env, corev1.EnvVar{Name: m[1], Value: "CHANGE-ME"})
	})}, a.Fixes...)
}
