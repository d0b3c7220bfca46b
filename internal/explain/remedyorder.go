package explain

import (
	"slices"
	"strings"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// withoutDoubles leaves the first of fixes that say or do the same.
func withoutDoubles(list []Fix) []Fix {
	var out []Fix
	for _, f := range list {
		if !slices.ContainsFunc(out, func(x Fix) bool {
			return x.Description == f.Description || len(f.Run) > 0 && slices.Equal(x.Run, f.Run)
		}) {
			out = append(out, f)
		}
	}
	return out
}

// remedies turns remedies of findings into fixes.
func remedies(list []finding.Remedy) []Fix {
	var out []Fix
	for _, r := range list {
		out = append(out, Fix{Description: r.Say, Run: r.Run, See: r.See, nodeLabels: r.NodeLabels})
	}
	return out
}

// readingVerbs are commands that change nothing.
var readingVerbs = []string{"get", "describe", "logs", "events", "auth", "top", "exec",
	"why", "trace", "explain"}

// onlyReads reports whether all that a fix has somebody run changes nothing.
func (f Fix) onlyReads() bool {
	return len(f.Run) > 0 && f.See == nil && f.Config == "" && f.ManifestChange == nil &&
		!slices.ContainsFunc(f.Run, func(command string) bool { return !readingCommand(command) })
}

// readingCommand reports whether a command of kubectl or gantry changes nothing.
func readingCommand(command string) bool {
	command, _, _ = strings.Cut(command, " -- ") // what is run in a container is there to be seen
	words := strings.Fields(command)
	if len(words) < 2 || words[0] != "kubectl" && words[0] != "gantry" || strings.ContainsAny(command, "|;&>") {
		return false
	}
	for i := 1; i < len(words); i++ {
		switch {
		case words[i] == "-n":
			i++
		case !strings.HasPrefix(words[i], "-"):
			return slices.Contains(readingVerbs, words[i])
		}
	}
	return false
}

// byEffect puts what a person would have to find out behind the commands that mend, and what
// only looks behind all; what is an alternative to something keeps its place behind that.
func byEffect(list []Fix) []Fix {
	rank := func(f Fix) int {
		switch {
		case f.onlyReads():
			return 2
		case len(f.Run) == 0 && f.Config == "" && f.ManifestChange == nil || strings.HasPrefix(f.Description, "or "):
			return 1
		}
		return 0
	}
	if !slices.ContainsFunc(list, func(f Fix) bool { return rank(f) == 0 }) {
		return list
	}
	out := slices.Clone(list)
	slices.SortStableFunc(out, func(a, b Fix) int { return rank(a) - rank(b) })
	return out
}
