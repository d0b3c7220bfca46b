package explain

import (
	"cmp"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// Words of a kubelet about a variable from a file of a volume: the key, or none where the file
// itself is not right.
var fileKeyWords = regexp.MustCompile(`environment variable key "([^"]+)" not found in file|couldn't parse env file|` +
	`referenced by FileKeyRef`)

// otherConfigFixes are what helps where a container cannot be made for another reason than those
// with a row of their own.
func otherConfigFixes(a *Answer, in In, c container, words string) []Fix {
	m := fileKeyWords.FindStringSubmatch(words)
	for i, e := range c.spec.Env {
		if m == nil || e.ValueFrom == nil || e.ValueFrom.FileKeyRef == nil || m[1] != "" &&
			e.ValueFrom.FileKeyRef.Key != m[1] {
			continue
		}
		r := e.ValueFrom.FileKeyRef
		f := finding.Finding{Code: "FileKeyMissing", Stage: finding.StageVolume, Object: in.object(),
			Field: fmt.Sprintf("%s.env[%d].valueFrom.fileKeyRef", pathOf(in.Pod, c), i), Value: r.Key,
			Message: fmt.Sprintf("Variable %s of container %s is key %s of file %s in volume %s (fileKeyRef), and "+
				"the file "+
				"is not there or has no such key when the container is made: an init container has to write it, as "+
				"lines KEY='value'.", e.Name, c.spec.Name, r.Key, r.Path, r.VolumeName),
			Remedies: []finding.Remedy{{Say: fmt.Sprintf("let an init container write %s='…' to file %s of volume "+
				"%s, or mark the variable optional", r.Key, r.Path, r.VolumeName)}}}
		a.Cause += ". " + f.Message
		a.Findings = append(a.Findings, f)
		return remedies(f.Remedies)
	}
	return textFixes(cmp.Or(kubeletFix(in, words), createHint(words)))
}

// userNamespaces are a runtime's words about users of a Pod's own.
var userNamespaces = regexp.MustCompile(`(?i)user ?namespace|\buserns\b|id-?mapp|idmap`)

// ownUsersFailed explains a Pod with users of its own on a node that cannot give it such.
func ownUsersFailed(a *Answer, in In, words string) {
	a.Cause = fmt.Sprintf("The Pod has users of its own (spec.hostUsers false), and node %s cannot give it such: %s",
		in.Pod.Spec.NodeName, words)
	fix := editedPodFix(in, "use the node's users: root in a container is then root on the node, if it breaks out",
		func(s *corev1.PodSpec) { s.HostUsers = nil })
	a.Fixes = append(textFixes("place the Pod on a node whose kernel, runtime and file systems have id-mapped "+
		"mounts"), fix)
	a.Findings = append(a.Findings, finding.Finding{Code: "OwnUsersFailed", Stage: finding.StageNode,
		Object: in.object(),
		Field:  "spec.hostUsers", Value: "false", Related: []finding.Object{{Kind: "Node", Name: in.Pod.Spec.NodeName}},
		Message: a.Cause, Remedies: asRemedies(a.Fixes)})
}
