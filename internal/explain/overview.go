package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// Overview is what is wrong in a namespace or a cluster, worst first.
type Overview struct {
	Scope  string   `json:"scope"` // "namespace shop" or "the cluster"
	Causes []Root   `json:"causes"`
	Unread []string `json:"unread,omitempty"`
}

// Root is one cause with all that it explains.
type Root struct {
	finding.Finding
	Explains []finding.Object `json:"explains,omitempty"` // further objects with the same cause
	Ask      string           `json:"ask,omitempty"`      // the command that says more
}

// NewOverview joins findings, and the answers about Pods that are not well, into causes: what
// several objects suffer from is one cause.
func NewOverview(scope string, found []finding.Finding, pods []Answer) Overview {
	for _, a := range pods {
		found = append(found, mainFinding(a))
		if len(a.Findings) > 1 {
			found = append(found, a.Findings[1:]...)
		}
	}
	found = finding.Roots(found)
	slices.SortStableFunc(found, func(a, b finding.Finding) int {
		down := map[bool]int{a.Code == "ComponentDown": -1}[true] - map[bool]int{b.Code == "ComponentDown": -1}[true]
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), down) // what explains others comes first
	})
	o := Overview{Scope: scope}
	at := map[string]int{}
	for _, f := range found {
		key := rootKey(f)
		if i, ok := at[key]; ok && key != "" {
			if f.Object != o.Causes[i].Object && !slices.Contains(o.Causes[i].Explains, f.Object) {
				o.Causes[i].Explains = append(o.Causes[i].Explains, f.Object)
			}
			continue
		}
		at[key] = len(o.Causes)
		o.Causes = append(o.Causes, Root{Finding: f, Ask: askAbout(f.Object)})
	}
	return o
}

// rootKey is equal for findings with one cause: the same missing object, the same node, the same
// component.
func rootKey(f finding.Finding) string {
	switch f.Code {
	case "ReferenceMissing", "KeyMissing", "ReferenceTerminating":
		if len(f.Related) > 0 {
			return f.Code + f.Related[0].String() + f.Value
		}
	case "ControllersIdle":
		return f.Code
	case "ComponentDown":
		if f.Object.Name == "kube-controller-manager" {
			return "ControllersIdle" // it explains them
		}
	case "NodeSilent", "NodeNotReady", "Cordoned":
		return f.Code + f.Object.String()
	}
	return f.Code + f.Object.String() + f.Field + f.Value
}

// mainFinding is the answer about a Pod as one finding: its worst, or its sentence.
func mainFinding(a Answer) finding.Finding {
	f := finding.Finding{Code: a.Code, Message: a.Subject + " is " + a.State + ": " + a.Cause}
	if len(a.Findings) > 0 {
		f = a.Findings[0]
		f.Message = a.Cause
	}
	if f.Object.Name == "" {
		kind, rest, _ := strings.Cut(a.Subject, "/")
		name, ns, _ := strings.Cut(rest, " in ")
		f.Object = finding.Object{Kind: strings.ToUpper(kind[:1]) + kind[1:], Namespace: ns, Name: name}
	}
	for _, x := range a.Fixes {
		f.Remedies = append(f.Remedies, finding.Remedy{Say: x.Description, Run: x.Run})
	}
	return f
}

// askAbout is the command that explains an object.
func askAbout(o finding.Object) string {
	s := "gantry why " + strings.ToLower(o.Kind) + "/" + o.Name
	if o.Namespace != "" {
		s += " -n " + o.Namespace
	}
	return s
}

// count is how many causes have a severity.
func (o Overview) count(s finding.Severity) int {
	n := 0
	for _, c := range o.Causes {
		if c.Severity == s {
			n++
		}
	}
	return n
}

// WriteText prints the overview for a person.
func (o Overview) WriteText(w io.Writer, _ time.Time) error {
	var b strings.Builder
	if len(o.Causes) == o.count(finding.Note) {
		fmt.Fprintf(&b, "Nothing is wrong in %s as far as its objects say.\n", o.Scope)
	} else {
		fmt.Fprintf(&b, "In %s %d things are broken and %d will be in the way; worst first:\n", o.Scope,
			o.count(finding.Broken), o.count(finding.Threat))
	}
	for _, c := range o.Causes {
		if c.Severity == finding.Note {
			continue
		}
		fmt.Fprintf(&b, "\n%s: %s\n", c.Object, c.Message)
		if len(c.Explains) > 0 {
			var names []string
			for _, x := range c.Explains {
				names = append(names, x.String())
			}
			fmt.Fprintf(&b, "  · this also explains %s\n", joinList(names))
		}
		for _, r := range c.Remedies[:min(len(c.Remedies), 2)] {
			fmt.Fprintf(&b, "  → %s\n", r.Say)
			for _, run := range r.Run {
				fmt.Fprintf(&b, "      $ %s\n", run)
			}
		}
		fmt.Fprintf(&b, "  ? %s\n", c.Ask)
	}
	for _, text := range o.Unread {
		fmt.Fprintf(&b, "\nThis could not be read: %s\n", text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
