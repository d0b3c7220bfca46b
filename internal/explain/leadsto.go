package explain

import (
	"slices"
	"strings"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// LeadsTo is the object, as gantry why is asked about it, and its namespace, of which the answer
// says that what is wrong with it is the reason; about is empty where there is none. An object that
// is not there leads to none: what it asks about instead is what was meant, not a reason.
func (a Answer) LeadsTo() (about, namespace string) {
	if a.Well() || a.Code == NoSuchObject {
		return "", ""
	}
	for _, f := range a.Fixes {
		for _, run := range f.Run {
			words := strings.Fields(run)
			if len(words) < 3 || words[0] != "gantry" || words[1] != "why" {
				continue
			}
			if i := slices.Index(words, "-n"); i > 0 && i+1 < len(words) {
				namespace = words[i+1]
			}
			return words[2], namespace
		}
	}
	return "", ""
}

// Joined is the answer with that about the object to which it leads: the root is told after what it
// does, and mended first. A root that is not broken explains nothing.
func (a Answer) Joined(root Answer) Answer {
	broken := slices.ContainsFunc(root.Findings, func(f finding.Finding) bool { return f.Severity == finding.Broken })
	if root.Well() || root.Cause == "" || !broken || strings.Contains(a.Cause, root.Cause) {
		return a
	}
	name, _, _ := strings.Cut(root.Subject, " ")
	a.Cause += " That is because " + name + " is " + root.State + ": " + root.Cause
	a.Findings = finding.Roots(append(slices.Clone(a.Findings), root.Findings...))
	own := slices.DeleteFunc(slices.Clone(root.Fixes), Fix.onlyReads)
	a.Fixes = byEffect(withoutDoubles(append(own, a.Fixes...)))
	return a
}
