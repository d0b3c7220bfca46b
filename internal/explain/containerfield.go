package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// wordsField is the field of a Pod that a component's words about a container, whose path is at,
// are about: what they name, or what they quote. Empty where they are about nothing of it.
func wordsField(in In, c container, at, words string) (field, value, want string) {
	low := strings.ToLower(words)
	if dir := workingDirOf(c, words); dir != "" {
		return at + ".workingDir", dir, ""
	}
	if r, ok := mountedOver(in, c, words); ok {
		return r.field, r.value, r.want
	}
	switch {
	case keyPattern.MatchString(words):
		m := keyPattern.FindStringSubmatch(words)
		return keyField(in.Pod, c, at, objectKey{kind: m[2], name: m[3], key: strings.TrimSuffix(m[1], ",")})
	case objectPattern.MatchString(words):
		m := objectPattern.FindStringSubmatch(words)
		return keyField(in.Pod, c, at, objectKey{kind: kinds[m[1]], name: m[2]})
	case strings.Contains(low, "runasnonroot"), strings.Contains(low, "non-root policy"),
		userName.MatchString(words):
		if uid, field, known := userOf(in.Pod, c, at); known {
			return field, fmt.Sprint(uid), "1000"
		}
		if s := c.spec.SecurityContext; s != nil && s.RunAsNonRoot != nil {
			return at + ".securityContext.runAsNonRoot", "true", "false"
		}
		return "spec.securityContext.runAsNonRoot", "true", "false"
	case programPattern.MatchString(words):
		program := programPattern.FindStringSubmatch(words)[1]
		if r, ok := refusedStart(in, c, words); ok && r.object.Kind == "" {
			return r.field, r.value, r.want
		}
		for list, content := range map[string][]string{"command": c.spec.Command, "args": c.spec.Args} {
			if i := slices.Index(content, program); i >= 0 {
				return fmt.Sprintf("%s.%s[%d]", at, list, i), program, ""
			}
		}
		if field := probeProgramField(c, at, program); field != "" {
			return field, program, ""
		}
		if len(c.spec.Command) == 0 {
			return at + ".image", c.spec.Image, ""
		}
	case noSubPath.MatchString(words):
		volume := noSubPath.FindStringSubmatch(words)[1]
		for i, m := range c.spec.VolumeMounts {
			if m.Name == volume && m.SubPath+m.SubPathExpr != "" {
				if m.SubPath == "" {
					return fmt.Sprintf("%s.volumeMounts[%d].subPathExpr", at, i), m.SubPathExpr, ""
				}
				return fmt.Sprintf("%s.volumeMounts[%d].subPath", at, i), m.SubPath, ""
			}
		}
	}
	if m := missingValue.FindStringSubmatch(words); m != nil {
		for i, v := range c.spec.VolumeMounts {
			if strings.Contains(v.SubPathExpr, "$("+m[1]+")") {
				return fmt.Sprintf("%s.volumeMounts[%d].subPathExpr", at, i), v.SubPathExpr, nearVariable(c, m[1])
			}
		}
	}
	if field, value, ok := finding.Quoted(c.spec, at, words); ok && !strings.HasSuffix(field, "].name") {
		return field, value, ""
	}
	if field, value, ok := finding.Quoted(podParts(in.Pod), "spec", words); ok {
		return field, value, ""
	}
	return "", "", ""
}

// missingValue matches the kubelet's words for a variable of a subPathExpr that there is not.
var missingValue = regexp.MustCompile(`missing value for ([A-Za-z_.-][A-Za-z0-9_.-]*)`)

// nearVariable is the use of a container's variable of nearly a name; empty when there is none.
func nearVariable(c container, name string) string {
	var have []string
	for _, e := range c.spec.Env {
		have = append(have, e.Name)
	}
	near, _ := finding.Near(name, have)
	if near == "" {
		return ""
	}
	return "$(" + near + ")"
}

// podParts are a Pod's spec without its containers.
func podParts(p *corev1.Pod) corev1.PodSpec {
	s := p.Spec
	s.Containers, s.InitContainers, s.EphemeralContainers = nil, nil, nil
	return s
}

// keyField is where a container, or a volume of its Pod, names an object or a key of it.
func keyField(p *corev1.Pod, c container, at string, r objectKey) (field, value, want string) {
	value = r.key
	if value == "" {
		value = r.name
	}
	last := map[bool]string{true: "name", false: "key"}[r.key == ""]
	ref := map[string]string{"Secret": "secret", "ConfigMap": "configMap"}[r.kind]
	for i := range c.spec.Env {
		if k := keyOf(&c.spec.Env[i]); k.kind == r.kind && k.name == r.name && (r.key == "" || k.key == r.key) {
			return fmt.Sprintf("%s.env[%d].valueFrom.%sKeyRef.%s", at, i, ref, last), value, ""
		}
	}
	for i, e := range c.spec.EnvFrom {
		if e.ConfigMapRef != nil && r.kind == "ConfigMap" && e.ConfigMapRef.Name == r.name ||
			e.SecretRef != nil && r.kind == "Secret" && e.SecretRef.Name == r.name {
			return fmt.Sprintf("%s.envFrom[%d].%sRef.name", at, i, ref), r.name, ""
		}
	}
	for i, v := range p.Spec.Volumes {
		if v.ConfigMap != nil && r.kind == "ConfigMap" && v.ConfigMap.Name == r.name {
			return fmt.Sprintf("spec.volumes[%d].configMap.name", i), r.name, ""
		}
		if v.Secret != nil && r.kind == "Secret" && v.Secret.SecretName == r.name {
			return fmt.Sprintf("spec.volumes[%d].secret.secretName", i), r.name, ""
		}
	}
	return "", "", ""
}

// containerRemedies are what helps a container that waits or ended, whichever container the answer
// itself is about.
func containerRemedies(in In, c container, t *corev1.ContainerStateTerminated) []finding.Remedy {
	return asRemedies(containerAnswer(in, c, t).Fixes)
}

// containerAnswer is the answer about a container that waits or ended, as if it were the only one
// of its Pod; empty about one that does neither. t is how its last run ended; may be nil.
func containerAnswer(in In, c container, t *corev1.ContainerStateTerminated) (a Answer) {
	switch w := c.waiting(); {
	case w != nil && slices.Contains(imageReasons, w.Reason):
		a = *imageAnswer(in, c, w)
	case w != nil && slices.Contains(configReasons, w.Reason):
		a = *configAnswer(in, c, w)
	case t != nil:
		terminationCause(&a, in, c, t)
	default:
		if k := stoppedByProbe(in, c); k.known {
			killedByProbeCause(&a, in, c, k)
		}
	}
	return a
}

// runsWellSince reports whether a container that was restarted once runs now and has run longer
// than the run before: what ended it is past.
func runsWellSince(in In, c container) bool {
	if c.status == nil || c.status.State.Running == nil || c.status.RestartCount != 1 || !c.status.Ready ||
		c.status.LastTerminationState.Terminated == nil {
		return false
	}
	t := c.status.LastTerminationState.Terminated
	ran := in.Now.Sub(c.status.State.Running.StartedAt.Time)
	return ran >= leastWell && ran > 2*t.FinishedAt.Sub(t.StartedAt.Time)
}

// variableMissing explains a subPathExpr with a variable that the container does not have.
func variableMissing(a *Answer, in In, c container, name string) {
	a.Cause = fmt.Sprintf("Container %s cannot be made: subPathExpr uses $(%s), and the container has no variable of "+
		"that name.", c.spec.Name, name)
	a.Fixes = nil
	if near := nearVariable(c, name); near != "" {
		a.Cause += fmt.Sprintf(" Perhaps %s was meant.", near)
		a.Fixes = append(a.Fixes, editedContainer(in, c.spec.Name, "write "+near, func(x *corev1.Container) {
			for i := range x.VolumeMounts {
				x.VolumeMounts[i].SubPathExpr = strings.ReplaceAll(x.VolumeMounts[i].SubPathExpr, "$("+name+")", near)
			}
		}))
	}
	a.Fixes = append(a.Fixes, editedContainer(in, c.spec.Name, fmt.Sprintf("or give it %s; the value is yours to fill "+
		"in, CHANGE-ME stands for it", name), func(x *corev1.Container) {
		x.Env = append(x.Env, corev1.EnvVar{Name: name, Value: "CHANGE-ME"})
	}))
}

// oneWordFix is for a command line that stands in one word of command: the words for themselves.
func oneWordFix(in In, c container, program string) []Fix {
	words := takenApart(c.spec.Command, program)
	if words == nil {
		return nil
	}
	return []Fix{editedContainer(in, c.spec.Name, oneWordSay(program),
		func(x *corev1.Container) { x.Command = words })}
}

// takenApart are the words of a command that stands in one word; nil where that is not so.
func takenApart(command []string, program string) []string {
	words := strings.Fields(program)
	if len(words) < 2 || len(command) != 1 || command[0] != program ||
		strings.ContainsAny(program, `"'\`) { // words that a shell would keep together
		return nil
	}
	return words
}

func oneWordSay(program string) string {
	return fmt.Sprintf("write each word of %q for itself: no shell takes it apart", program)
}
