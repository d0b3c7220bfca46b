package explain

import (
	"strings"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// NoSuchObject is the code of an answer about an object that is not there, and of which nothing
// tells that it was.
const NoSuchObject = "no such object"

// NotThere is the answer that an object is not there; f is the finding that says what may have been
// meant, memory what is kept about one that was there.
func NotThere(f finding.Finding, memory string) Answer {
	a := Answer{Subject: strings.ToLower(f.Object.Kind) + "/" + f.Object.Name, State: "not there",
		Code: NoSuchObject, Cause: f.Message, Findings: []finding.Finding{f}, Fixes: remedies(f.Remedies)}
	if f.Object.Namespace != "" {
		a.Subject += " in " + f.Object.Namespace
	}
	if memory != "" {
		a.Facts = []string{memory}
	}
	return a
}

// NotMadeYet is the answer about an object that a workload is to make: maker is the answer about
// that, which says what holds it up.
func NotMadeYet(a, maker Answer) Answer {
	a.State, a.Code, a.Since, a.Next = "not made yet", maker.Code, maker.Since, maker.Next
	kind, _, _ := strings.Cut(maker.Subject, "/")
	a.Cause += " The " + kind + " is " + maker.State + ": " + maker.Cause
	a.Facts = append(maker.Facts, a.Facts...)
	a.Fixes = withoutDoubles(append(maker.Fixes, a.Fixes...))
	a.Findings = append(maker.Findings, a.Findings...)
	a.also, a.Unread = maker.also, maker.Unread
	return a
}

// AboutName is the answer about a name that a Pod of a namespace may ask name servers for; o has
// both, f says what they answer.
func AboutName(o finding.Object, f finding.Finding) Answer {
	a := Answer{Subject: "name " + o.Name + " in " + o.Namespace, State: "resolved", Code: "name", Cause: f.Message,
		Findings: []finding.Finding{f}, Fixes: remedies(f.Remedies)}
	switch f.Severity {
	case finding.Broken:
		a.State = "not resolved"
	case finding.Threat:
		a.State = "resolved, and not reached"
	}
	return a
}
