package explain

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
