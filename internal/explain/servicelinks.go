package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// linkPattern is the value that a Service's variable NAME_PORT has.
var linkPattern = regexp.MustCompile(`\b(?:tcp|udp|sctp)://(\[?[0-9a-f.:]+?\]?):(\d+)\b`)

// noNumberWords are those by which programs say that a setting is not what it should be.
var noNumberWords = []string{"number", "invalid", "integer", "pars", "illegal", "unexpected", "expected", "malformed",
	"bad ", "cannot convert", "could not convert"}

// serviceLink is a variable that a Service gives to every container of its namespace, which a
// program takes for a setting of its own: a line tells of its value.
func serviceLink(in In, c container, line string) (restriction, bool) {
	m := linkPattern.FindStringSubmatch(line)
	low := strings.ToLower(line)
	off := in.Pod.Spec.EnableServiceLinks != nil && !*in.Pod.Spec.EnableServiceLinks
	if m == nil || off || in.NamespaceContext == nil || !slices.ContainsFunc(noNumberWords,
		func(w string) bool { return strings.Contains(low, w) }) {
		return restriction{}, false
	}
	ip := strings.Trim(m[1], "[]")
	for _, s := range in.NamespaceContext.Services {
		name := strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_")) + "_PORT"
		if !slices.Contains(s.Spec.ClusterIPs, ip) && s.Spec.ClusterIP != ip || slices.ContainsFunc(c.spec.Env,
			func(e corev1.EnvVar) bool { return e.Name == name }) {
			continue
		}
		no := false
		return restriction{field: "spec.enableServiceLinks", value: "true", want: "false", text: fmt.Sprintf(
			"It reads %s, which is no setting of its own: Service %s of the namespace gives each container variables "+
				"of its name (%s=%s).", name, s.Name, name, m[0]), fixes: []Fix{
			editedPodFix(in, "give it no variables of Services: enableServiceLinks false; their names still resolve",
				func(spec *corev1.PodSpec) { spec.EnableServiceLinks = &no }),
			{Description: fmt.Sprintf("or set %s in env: that one counts", name)}}}, true
	}
	return restriction{}, false
}
