package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

// lastRan says how long a container's last run was. A program that the runtime could not start has
// no time of its start.
func lastRan(t *corev1.ContainerStateTerminated) string {
	if t.StartedAt.Unix() <= 0 || t.StartedAt.IsZero() {
		return "its program has not run at all"
	}
	return "it last ran for " + ago(t.FinishedAt.Sub(t.StartedAt.Time))
}

// Words by which a runtime says that it cannot go to a container's working directory, or cannot
// make it; the group is the directory.
var workingDirWords = []*regexp.Regexp{
	regexp.MustCompile(`chdir to cwd \("([^"]+)"\)`),
	regexp.MustCompile(`mkdir (\S+): (?:not a directory|file exists|read-only file system|permission denied)`),
}

// workingDirOf is a container's working directory, if a runtime's words are about it; else empty.
func workingDirOf(c container, words string) string {
	dir := strings.TrimSuffix(c.spec.WorkingDir, "/")
	for _, p := range workingDirWords {
		if m := p.FindStringSubmatch(words); m != nil && dir != "" && strings.HasPrefix(dir+"/", m[1]+"/") {
			return c.spec.WorkingDir
		}
	}
	return ""
}

// workingDirText is a sentence, with a space before it, about a working directory to which a
// runtime's words say that it cannot go.
func workingDirText(dir, words string) string {
	switch {
	case strings.Contains(words, "not a directory"), strings.Contains(words, "file exists"):
		return fmt.Sprintf(" That is of its workingDir, %s: it, or a part of it, is a file in the image and no "+
			"directory.",
			dir)
	case strings.Contains(words, "read-only"):
		return fmt.Sprintf(" That is of its workingDir, %s: the image has no such directory, and the runtime cannot "+
			"make it where it may not write.", dir)
	}
	return fmt.Sprintf(" That is of its workingDir, %s.", dir)
}

// startFixes are remedies for a container that the runtime could not start, where its words name no
// program.
func startFixes(in In, c container, words string) []Fix {
	if dir := workingDirOf(c, words); dir != "" {
		return []Fix{editedContainer(in, c.spec.Name, fmt.Sprintf("leave workingDir %s out: its program then starts "+
			"in the image's own directory", dir), func(x *corev1.Container) { x.WorkingDir = "" }),
			{Description: "or name a directory that its user may enter, or that the runtime can make"}}
	}
	if strings.Contains(words, "exec") {
		return textFixes("correct the command: it is not in the image, or cannot be executed")
	}
	return textFixes("mend what the runtime's words name")
}

// wrapped matches what a kubelet, containerd and runc put before the words of what failed.
var wrapped = regexp.MustCompile(`^(?:rpc error: code = \w+ desc = |failed to (?:create containerd task|` +
	`create shim task|exec in container|start containerd task "[^"]*"|start exec "[^"]*"): |` +
	`OCI runtime (?:create|exec|start) failed: |(?:runc create|exec) failed: |` +
	`unable to start container process: |error during container init: )+`)

// plainWords are a runtime's words without what each part of it put before them.
func plainWords(s string) string { return strings.TrimPrefix(s, wrapped.FindString(s)) }

// runtimesWords is a fact with a runtime's whole words, where plainWords are fewer.
func runtimesWords(s string) []string {
	s = strings.TrimSpace(s)
	if plainWords(s) == s {
		return nil
	}
	return []string{"the runtime's words: " + s}
}

// notRunWords are those by which the kernel or a runtime says that a program cannot be run.
var notRunWords = []string{"no such file", "executable file not found", "permission denied", "exec format error"}

// programMissing reports whether words say that a program is not there or may not be run.
func programMissing(words string) bool {
	return programPattern.MatchString(words) && slices.ContainsFunc(notRunWords, func(w string) bool {
		return strings.Contains(words, w)
	})
}

// probeProgramField is the field of a container's probe that runs a program, if there is one.
func probeProgramField(c container, at, program string) string {
	for _, p := range []struct {
		name  string
		probe *corev1.Probe
	}{{"startupProbe", c.spec.StartupProbe}, {"readinessProbe", c.spec.ReadinessProbe},
		{"livenessProbe", c.spec.LivenessProbe}} {
		if p.probe != nil && p.probe.Exec != nil && slices.Contains(p.probe.Exec.Command, program) {
			return fmt.Sprintf("%s.%s.exec.command", at, p.name)
		}
	}
	return ""
}

// probeProgramFixes are remedies for a probe whose program cannot be run.
func probeProgramFixes(in In, c container, f journal.Probed) []Fix {
	m := programPattern.FindStringSubmatch(f.Message)
	if m == nil || !programMissing(f.Message) {
		return nil
	}
	if p := probeOf(c.spec, f.Probe); p != nil && p.Exec != nil {
		if words := takenApart(p.Exec.Command, m[1]); words != nil {
			return []Fix{editedProbe(in, f, oneWordSay(m[1]), func(x *corev1.Probe) { x.Exec.Command = words })}
		}
	}
	return textFixes(fmt.Sprintf("correct the probe's command: %s is not in the image %s, or cannot be executed", m[1],
		c.spec.Image))
}
