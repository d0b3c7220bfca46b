package explain

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

var (
	// of the controller that looks for Pods whose labels cannot share a volume
	labelConflict = regexp.MustCompile(`^(SELinuxLabel|SELinuxChangePolicy) ?"([^"]*)" conflicts with (?:pod (\S+)|` +
		`another pod)(?: that uses the same volume as this pod with (?:SELinuxLabel|SELinuxChangePolicy) "([^"]*)")?`)
	// of a kubelet that mounts a volume with one label, and of one that serves no such mounts
	twoLabels  = regexp.MustCompile(`conflicting SELinux labels of volume (\S+): "([^"]*)" and "([^"]*)"`)
	noLabelled = regexp.MustCompile(`the SELinux mount option is not served`)
)

// seLinuxField is the SELinux label of a container, or its Pod, with its field; empty where none is
// set.
func seLinuxField(p *corev1.Pod, c *container) (field, value string) {
	text := func(o *corev1.SELinuxOptions) string {
		return strings.Join([]string{o.User, o.Role, o.Type, o.Level}, ":")
	}
	if c != nil {
		if s := c.spec.SecurityContext; s != nil && s.SELinuxOptions != nil {
			return pathOf(p, *c) + ".securityContext.seLinuxOptions", text(s.SELinuxOptions)
		}
	}
	if s := p.Spec.SecurityContext; s != nil && s.SELinuxOptions != nil {
		return "spec.securityContext.seLinuxOptions", text(s.SELinuxOptions)
	}
	return "", ""
}

// seLinuxDenied is a container whose program SELinux forbade something: its label is not the one
// that the file wants.
func seLinuxDenied(in In, c container, at string) (restriction, bool) {
	field, value := seLinuxField(in.Pod, &c)
	if field == "" {
		field, value = at+".securityContext.seLinuxOptions", ""
	}
	r := restriction{field: field, value: value, text: fmt.Sprintf("SELinux of the node forbids it (avc): its "+
		"label is %s (%s), and the file's label is not one that this may "+
		"touch.", orDefault(value, "the runtime's own"), field)}
	r.fixes = []Fix{{Description: "give the file the label that containers may touch: on the node chcon -Rt " +
		"container_file_t PATH, or mount the volume with relabelling"}}
	if value != "" {
		r.fixes = append([]Fix{editedContainer(in, c.spec.Name, "let the runtime choose the label: without "+
			"seLinuxOptions",
			func(x *corev1.Container) {
				if x.SecurityContext != nil {
					x.SecurityContext.SELinuxOptions = nil
				}
			})}, r.fixes...)
		if strings.HasPrefix(field, "spec.securityContext") {
			r.fixes[0] = editedPodFix(in, "let the runtime choose the label: without seLinuxOptions",
				func(s *corev1.PodSpec) { s.SecurityContext.SELinuxOptions = nil })
		}
	}
	return r, true
}

func orDefault(s, otherwise string) string {
	if strings.Trim(s, ":") == "" {
		return otherwise
	}
	return s
}

// seLinuxRefused explains a volume that is not mounted for the SELinux label of its Pod; false
// where it is something else.
func seLinuxRefused(a *Answer, in In, w journal.VolumeWaiting) bool {
	f := finding.Finding{Code: "SELinuxConflict", Stage: finding.StageVolume, Object: in.object()}
	f.Field, f.Value = seLinuxField(in.Pod, nil)
	recursive := editedPodFix(in, "let the runtime label the volume's files one by one: seLinuxChangePolicy "+
		"Recursive, which takes longer for many files", func(s *corev1.PodSpec) {
		if s.SecurityContext == nil {
			s.SecurityContext = &corev1.PodSecurityContext{}
		}
		s.SecurityContext.SELinuxChangePolicy = ptr.To(corev1.SELinuxChangePolicyRecursive)
	})
	switch m := twoLabels.FindStringSubmatch(w.Message); {
	case m != nil:
		f.Numbers = map[string]string{"mounted": m[2], "wanted": m[3]}
		a.Cause = fmt.Sprintf("Volume %s is not mounted: node %s has it mounted with the SELinux label %q for "+
			"another Pod, and this Pod's is %q (%s): one mount has one "+
			"label.", w.Volume, in.Pod.Spec.NodeName, m[2], m[3], f.Field)
		a.Fixes = append(a.Fixes, recursive, Fix{Description: "or give both Pods the same seLinuxOptions.level, or " +
			"place them on different nodes"})
	case noLabelled.MatchString(w.Message):
		f.Field, f.Value = "spec.securityContext.seLinuxChangePolicy", "MountOption"
		f.Want = string(corev1.SELinuxChangePolicyRecursive)
		a.Cause = fmt.Sprintf("Volume %s is not mounted: the Pod has an SELinux label of its own, the driver "+
			"mounts with such (CSIDriver seLinuxMount true), and the kubelet does not serve that: %s.", w.Volume,
			strings.TrimSuffix(oneLine(w.Message), "."))
		a.Fixes = append(a.Fixes, recursive)
	default:
		return false
	}
	f.Message, f.Remedies = a.Cause, asRemedies(a.Fixes)
	a.Findings = append(a.Findings, f)
	return true
}

// seLinuxFindings are conflicts of a Pod's SELinux label with that of another Pod that uses the
// same volume, as its controller tells.
func seLinuxFindings(in In) []finding.Finding {
	var out []finding.Finding
	seen := map[string]bool{}
	for i := range in.Events {
		m := labelConflict.FindStringSubmatch(in.Events[i].Message)
		if m == nil || seen[in.Events[i].Message] {
			continue
		}
		seen[in.Events[i].Message] = true
		f := finding.Finding{Code: "SELinuxConflict", Severity: finding.Threat, Stage: finding.StageVolume,
			Object: in.object(), Value: m[2], Want: m[4]}
		f.Field, _ = seLinuxField(in.Pod, nil)
		if m[1] == "SELinuxChangePolicy" {
			f.Field = "spec.securityContext.seLinuxChangePolicy"
		}
		other := "another Pod"
		if m[3] != "" {
			other = "Pod " + m[3]
			f.Related = []finding.Object{{Kind: "Pod", Namespace: in.Ref.Namespace, Name: m[3]}}
		}
		f.Message = fmt.Sprintf("The Pod's %s %q is not that of %s, which uses the same volume (%q): on one node "+
			"only one of them can have the volume.", m[1], m[2], other, m[4])
		f.Remedies = []finding.Remedy{{Say: fmt.Sprintf("give both the same %s", f.Field)}}
		out = append(out, f)
	}
	return out
}
