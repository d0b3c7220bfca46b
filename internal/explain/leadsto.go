package explain

import (
	"slices"
	"strings"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// LeadsTo is the object of which the answer says that what is wrong with it is the reason: the
// first that a fix sees. ok is false where there is none, or nothing is wrong.
func (a Answer) LeadsTo() (root finding.Object, ok bool) {
	if a.Well() {
		return finding.Object{}, false
	}
	for _, f := range a.Fixes {
		if f.See != nil {
			return *f.See, true
		}
	}
	return finding.Object{}, false
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
