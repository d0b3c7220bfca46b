package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// lineExplained holds one line of a container's last output against its own command and variables:
// a program that the kernel refuses to run, or a variable that is not set.
func lineExplained(in In, c container, at, line string) (restriction, bool) {
	if r, ok := programRefused(in, c, at, line); ok {
		return r, true
	}
	if r, ok := noMoreProcesses(in, line); ok {
		return r, true
	}
	if r, ok := addressInUse(in, c, at, line); ok {
		return r, true
	}
	if r, ok := otherAlias(in, line); ok {
		return r, true
	}
	if r, ok := serviceLink(in, c, line); ok {
		return r, true
	}
	if r, ok := saidBySpec(in, c, at, line); ok {
		return r, true
	}
	return variableWanted(in, c, at, line)
}

// Lines by which a container's runtime says that the kernel refused its program: of runc and crun,
// and of older ones, which do not name the program.
var (
	refusedProgram = regexp.MustCompile(`^(?:.*\s)?exec (/\S+): ([a-zA-Z ]+)$`)
	refusedProcess = regexp.MustCompile(`exec user process caused(?: "|: )([a-zA-Z ]+)`)
)

// programRefused is why the kernel did not run a container's program, of a runtime's line. Files of
// volumes are left to those who know what the volumes hold.
func programRefused(in In, c container, at, line string) (restriction, bool) {
	program, why := "", ""
	if m := refusedProgram.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
		program, why = m[1], m[2]
	} else if m := refusedProcess.FindStringSubmatch(line); m != nil {
		program, why = firstWord(c), m[1]
	}
	if r, ok := volumeProgram(in, c, program, why); ok {
		return r, true
	}
	if _, mounted := mountOf(c, program); mounted || program == "" {
		return restriction{}, false
	}
	switch low := strings.ToLower(why); {
	case strings.Contains(low, "exec format error"):
		return wrongFormat(in, c, at, program), true
	case strings.Contains(low, "no such file"):
		return notRun(c, at, program), true
	case strings.Contains(low, "permission denied"):
		r := restriction{text: fmt.Sprintf("It cannot run %s: the file may not be executed (it has no x bit), or the "+
			"container's user may not reach it.", program), fixes: []Fix{{Description: fmt.Sprintf("let the image "+
			"have %s with mode 0755, or start it by its interpreter, for instance command: [sh, %s]", program,
			program)}}}
		r.field, r.value = programField(c, at, program)
		return r, true
	}
	return restriction{}, false
}

// firstWord is the program that a container's spec names; empty: its image says it.
func firstWord(c container) string {
	if all := slices.Concat(c.spec.Command, c.spec.Args); len(all) > 0 {
		return all[0]
	}
	return c.spec.Image
}

// programField is where a container names a program; a program that its spec does not name is its
// image's.
func programField(c container, at, program string) (field, value string) {
	for i, s := range c.spec.Command {
		if s == program {
			return fmt.Sprintf("%s.command[%d]", at, i), program
		}
	}
	for i, s := range c.spec.Args {
		if s == program {
			return fmt.Sprintf("%s.args[%d]", at, i), program
		}
	}
	if len(c.spec.Command) > 0 {
		return at + ".command", program
	}
	return at + ".image", c.spec.Image
}

// notRun is a program that is not there, or whose interpreter is not there: the kernel says the
// same of both.
func notRun(c container, at, program string) restriction {
	r := restriction{text: fmt.Sprintf("It cannot run %s: the file is missing, or what runs it is: the interpreter in "+
		"its first line (a line end of Windows there spoils the name), or the loader that it was linked for.", program),
		fixes: []Fix{{Description: fmt.Sprintf("see whether %s is in the image, and that its first line names a "+
			"program of the image and ends with a line feed alone", program)}}}
	r.field, r.value = programField(c, at, program)
	return r
}

// wrongFormat is a file that is no program for the node.
func wrongFormat(in In, c container, at, program string) restriction {
	processor := "the node's processor"
	if in.Node != nil && in.Node.Status.NodeInfo.Architecture != "" {
		processor = fmt.Sprintf("the processor of node %s (%s)", in.Node.Name, in.Node.Status.NodeInfo.Architecture)
	}
	r := restriction{text: fmt.Sprintf("It cannot run %s: that is no program for %s (exec format error): it was built "+
		"for another one, or is a script whose first line does not name its interpreter (#!/bin/sh).", program,
		processor),
		fixes: []Fix{{Description: fmt.Sprintf("use an image that is built for %s, or place the Pod on nodes of the "+
			"image's processor (nodeSelector kubernetes.io/arch)", processor)},
			{Description: "or, if it is a script, give it a first line such as #!/bin/sh"}}}
	r.field, r.value = programField(c, at, program)
	return r
}

// Log lines about a variable of the environment that is not set; the group is its name.
var unsetVariables = []*regexp.Regexp{
	regexp.MustCompile(
		`\b([A-Z][A-Z0-9_]{2,})\b["':]*(?: (?:is|was|must be|has to be|environment variable|env var|variable))*:? ` +
			`(?:not set|unset|not defined|undefined|required|missing|set|empty)\b`),
	regexp.MustCompile(`\b([A-Z_][A-Z0-9_]{2,}): (?:parameter (?:null or )?not set|unbound variable)`), // shells
	regexp.MustCompile(`KeyError: '([A-Z][A-Z0-9_]{2,})'`),                                             // Python
	regexp.MustCompile(`key not found: "([A-Z][A-Z0-9_]{2,})"`),                                        // Ruby
	regexp.MustCompile(`Could not resolve placeholder '([A-Z][A-Z0-9_]{2,})'`),                         // Spring
	regexp.MustCompile(`(?i:missing|required|undefined|unset|no)(?i: required)?(?i: environment| env) ` +
		`?(?i:variables?|vars?)?:? ["'$]?([A-Z][A-Z0-9_]{2,})\b`),
}

// unsetVariableIn is the variable that a line says is not set; empty where it says no such thing.
func unsetVariableIn(line string) string {
	for _, p := range unsetVariables {
		if m := p.FindStringSubmatch(line); m != nil {
			return m[1]
		}
	}
	return ""
}

// variableWanted is a variable that a line says is not set, and that the container is indeed not
// given as far as that is known.
func variableWanted(in In, c container, at, line string) (restriction, bool) {
	name := unsetVariableIn(line)
	if name == "" {
		return restriction{}, false
	}
	var have []string
	for i, e := range c.spec.Env {
		if e.Name == name {
			return emptyVariable(in, c, at, i)
		}
		have = append(have, e.Name)
	}
	for _, from := range c.spec.EnvFrom {
		if in.Objects == nil {
			break
		}
		if brings, _ := in.Objects.Brings(from, in.Ref.Namespace, name); brings {
			return restriction{}, false
		}
	}
	if r, ok := otherPrefix(in, c, at, name); ok {
		return r, true
	}
	r := restriction{field: at + ".env", want: name, text: fmt.Sprintf("It says that %s is wanted, and the container "+
		"has no such variable.", name)}
	if near, how := finding.Near(name, have); near != "" {
		i := slices.Index(have, near)
		r.field, r.value = fmt.Sprintf("%s.env[%d].name", at, i), near
		r.text += fmt.Sprintf(" It has %s: perhaps that was meant; %s.", near, how)
		r.fixes = []Fix{editedContainer(in, c.spec.Name, fmt.Sprintf("call the variable %s %s", near, name),
			func(x *corev1.Container) { x.Env[i].Name = name })}
	}
	r.fixes = append(r.fixes, editedContainer(in, c.spec.Name,
		fmt.Sprintf("set %s; the value is yours to fill in, CHANGE-ME stands for it", name),
		func(x *corev1.Container) { x.Env = append(x.Env, corev1.EnvVar{Name: name, Value: "CHANGE-ME"}) }))
	return r, true
}

// apiVolumeWritten is a file of a volume that shows what the API server keeps, which no container
// may write. at is the field of its mount.
func apiVolumeWritten(in In, m corev1.VolumeMount, at, file string) (restriction, bool) {
	if !isAPIVolume(in.Pod, m.Name) {
		return restriction{}, false
	}
	return restriction{field: at + ".mountPath", value: m.MountPath, text: fmt.Sprintf("It cannot write %s: volume %s "+
		"at %s shows what the API server keeps, and is read-only to every container.", file, m.Name, m.MountPath),
		fixes: []Fix{{Description: fmt.Sprintf("write elsewhere, or copy what is needed from %s to an emptyDir first",
			m.MountPath)}}}, true
}
