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
	// Pods that are not well and were not looked at, as there are so many
	NotAsked []finding.Object `json:"notAsked,omitempty"`
}

// Root is one cause with all that it explains.
type Root struct {
	finding.Finding
	Explains []finding.Object `json:"explains,omitempty"` // further objects with the same cause
	Said     string           `json:"said,omitempty"`     // the last line that a failed container logged
	Ask      string           `json:"ask,omitempty"`      // the command that says more

	around bool // it is of the cluster, and explains nothing in the namespace that was asked about
}

// PodAnswer is an answer about a Pod that is not well.
type PodAnswer struct {
	Answer
	Owner finding.Object // its outermost controller, or the Pod
}

// NewOverview joins findings, and the answers about Pods that are not well, into causes: what
// several objects suffer from is one cause, and what only follows from a Pod's trouble, such as a
// Service without ready Pods, is said with that.
func NewOverview(scope string, found []finding.Finding, pods []PodAnswer) Overview {
	keys := map[string]string{} // of causes that Pods of several owners may share, by finding
	said := map[finding.Object]string{}
	follow := map[finding.Object][]finding.Object{} // Pods by the object that is to blame for them
	for _, a := range pods {
		if a.Well() {
			continue
		}
		a.Answer = withReasonFirst(a.Answer)
		f := mainFinding(a.Answer).WithRoot(a.Owner)
		if i := slices.IndexFunc(found, func(x finding.Finding) bool { return sameAs(f, x) }); i >= 0 {
			follow[found[i].Object] = append(follow[found[i].Object], a.object())
			found = a.furtherFindings(found)
			continue
		}
		if f.Object.Kind == "Pod" {
			f.Object = a.object() // the words are about it, whichever Pod stands in its way
		} else {
			follow[f.Object] = append(follow[f.Object], a.object())
		}
		keys[f.Code+f.Object.String()], said[f.Object] = a.shared, a.lastSaid()
		found = a.furtherFindings(append(found, f))
	}
	found = withoutRepeatedThreats(finding.Roots(found))
	slices.SortStableFunc(found, func(a, b finding.Finding) int {
		down := map[bool]int{a.Code == "ComponentDown": -1}[true] - map[bool]int{b.Code == "ComponentDown": -1}[true]
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), down) // what explains others comes first
	})
	o := Overview{Scope: scope}
	at := map[string]int{}
	for _, f := range found {
		key := cmp.Or(keys[f.Code+f.Object.String()], rootKey(f))
		if i, ok := at[key]; ok && key != "" {
			o.Causes[i].explain(f.Object)
			continue
		}
		at[key] = len(o.Causes)
		r := Root{Finding: f, Ask: askAbout(f.Object), Said: said[f.Object]}
		for _, p := range follow[f.Object] {
			r.explain(p)
		}
		o.Causes = append(o.Causes, r)
	}
	o.joinConsequences(pods)
	o.ownFirst()
	return o
}

// ownFirst puts what is of the cluster, and explains nothing in the namespace that was asked about,
// behind what is of that.
func (o *Overview) ownFirst() {
	ns, of := strings.CutPrefix(o.Scope, "namespace ")
	if !of {
		return
	}
	for i := range o.Causes {
		c := &o.Causes[i]
		inside := func(x finding.Object) bool { return x.Namespace == ns || x.Kind == "Namespace" && x.Name == ns }
		c.around = c.Object.Namespace == "" && !inside(c.Object) && !inside(c.Root()) &&
			!slices.ContainsFunc(c.Related, inside) && !slices.ContainsFunc(c.Explains, inside)
	}
	slices.SortStableFunc(o.Causes, func(a, b Root) int {
		return map[bool]int{true: 1}[a.around] - map[bool]int{true: 1}[b.around]
	})
}

// Beginnings of facts that are lines of a container's log.
const (
	saidPrefix = "it said: "
	saysPrefix = "it says: " // of one that runs
)

// failureWords are words by which a log line tells that something failed.
var failureWords = []string{"error", "fail", "denied", "cannot", "can't", "no such", "refused", "panic", "fatal",
	"exception", "not found", "no space", "timed out", "forbidden", "unable", "invalid"}

// lastSaid is the last of the facts that are log lines, rather one that tells of a failure; empty
// where there is none.
func (a Answer) lastSaid() string {
	last := ""
	for _, f := range slices.Backward(a.Facts) {
		if !strings.HasPrefix(f, saidPrefix) && !strings.HasPrefix(f, saysPrefix) {
			continue
		}
		last = cmp.Or(last, f)
		low := strings.ToLower(f)
		if slices.ContainsFunc(failureWords, func(w string) bool { return strings.Contains(low, w) }) {
			return f
		}
	}
	return last
}

// explain adds an object that has the same cause.
func (r *Root) explain(o finding.Object) {
	if o != r.Object && !slices.Contains(r.Explains, o) {
		r.Explains = append(r.Explains, o)
	}
}

// sameAs reports whether a Pod's main finding is x, or is about the same object or its owner and
// names the same value: a Secret that is missing is said once.
func sameAs(f, x finding.Finding) bool {
	switch {
	case x.Severity != finding.Broken:
		return false
	case f.Code == x.Code && f.Object == x.Object && f.Field == x.Field:
		return true
	}
	return f.Value != "" && x.Value == f.Value && x.Root() == f.Root() && strings.HasPrefix(f.Field, x.Field)
}

// furtherFindings adds to found what else is wrong with the Pod than the first.
func (a PodAnswer) furtherFindings(found []finding.Finding) []finding.Finding {
	for _, f := range a.Findings[min(1, len(a.Findings)):] {
		f = f.WithRoot(a.Owner)
		if !slices.ContainsFunc(found, func(x finding.Finding) bool { return sameAs(f, x) }) {
			found = append(found, f)
		}
	}
	return found
}

// withoutRepeatedThreats leaves out threats by a field of which something that is broken is told,
// with the same value: the one thing has happened already.
func withoutRepeatedThreats(list []finding.Finding) []finding.Finding {
	return slices.DeleteFunc(list, func(f finding.Finding) bool {
		return f.Severity == finding.Threat && f.Value != "" && slices.ContainsFunc(list, func(x finding.Finding) bool {
			return x.Severity == finding.Broken && x.Object == f.Object && x.Field == f.Field && x.Value == f.Value
		})
	})
}

// object is the Pod that an answer is about.
func (a PodAnswer) object() finding.Object {
	_, rest, _ := strings.Cut(a.Subject, "/")
	name, ns, _ := strings.Cut(rest, " in ")
	return finding.Object{Kind: "Pod", Namespace: ns, Name: name}
}

// consequences are the codes of findings that only say that something is not well.
var consequences = []string{"NoReadyPods", "BackoffLimitExceeded", "JobFailed", "FailedIndexes",
	"MaxFailedIndexesExceeded", "ProgressDeadlineExceeded", "PodsRefused", "Warning", "ConditionWrong"}

// joinConsequences takes causes away that follow from a Pod's, and names their objects there. A
// Service's Pods are those that its finding names.
func (o *Overview) joinConsequences(pods []PodAnswer) {
	owners := map[finding.Object]bool{}
	for _, a := range pods {
		owners[a.Owner] = true
	}
	var kept, follow []Root
	for _, c := range o.Causes {
		if slices.Contains(consequences, c.Code) || c.Code == "DependencyFails" || c.Code == "InterPodAffinity" {
			follow = append(follow, c)
		} else {
			kept = append(kept, c)
		}
	}
	for _, asks := range []bool{false, true} { // who asks a Service follows from what that one follows from
		for _, c := range follow {
			if asks != (c.Code == "DependencyFails") {
				continue
			}
			i := slices.IndexFunc(kept, func(r Root) bool {
				return r.Severity <= c.Severity && (r.Root() == c.Root() || owners[r.Root()] && r.tells(c.Related)) &&
					(c.Code != "InterPodAffinity" || r.Code == "TooFewPlaces")
			})
			if i < 0 {
				kept = append(kept, c)
				continue
			}
			kept[i].explain(c.Object)
		}
	}
	slices.SortStableFunc(kept, func(a, b Root) int { return cmp.Compare(a.Severity, b.Severity) })
	o.Causes = kept
}

// tells reports whether a cause is about one of objects.
func (r Root) tells(objects []finding.Object) bool {
	return slices.ContainsFunc(objects, func(o finding.Object) bool {
		return o == r.Object || slices.Contains(r.Explains, o)
	})
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
	f := finding.Finding{Code: a.Code, Severity: finding.Threat, Message: "The Pod is " + a.State + ": " + a.Cause,
		Object: PodAnswer{Answer: a}.object()}
	if slices.Contains(underWay, a.Code) {
		f.Severity = finding.Note
	}
	if len(a.Findings) > 0 {
		f = a.Findings[0]
		f.Message = a.Cause
	}
	if len(a.Fixes) > 0 {
		f.Remedies = nil
	}
	for i, x := range withoutDoubles(a.Fixes) {
		if i == 0 {
			x.Description = strings.TrimPrefix(x.Description, "or ")
		}
		f.Remedies = append(f.Remedies, finding.Remedy{Say: x.Description, Run: x.Run, See: x.See})
	}
	return f
}

// askAbout is the command that explains an object.
func askAbout(o finding.Object) string {
	return "gantry why " + o.String()
}

// count is how many causes have a severity, those around the namespace aside.
func (o Overview) count(s finding.Severity) int {
	n := 0
	for _, c := range o.Causes {
		if c.Severity == s && !c.around {
			n++
		}
	}
	return n
}

// WriteText prints the overview for a person.
func (o Overview) WriteText(w io.Writer, _ time.Time) error {
	var b strings.Builder
	if o.count(finding.Broken)+o.count(finding.Threat) == 0 {
		fmt.Fprintf(&b, "Nothing is wrong in %s as far as its objects say.\n", o.Scope)
	} else {
		fmt.Fprintf(&b, "In %s %d things are broken and %d will be in the way; worst first:\n", o.Scope,
			o.count(finding.Broken), o.count(finding.Threat))
	}
	around := false
	for _, c := range o.Causes {
		if c.Severity == finding.Note {
			continue
		}
		if c.around && !around {
			around = true
			b.WriteString("\nBeside it, in the cluster:\n")
		}
		fmt.Fprintf(&b, "\n%s: %s\n", c.Object, c.Message)
		if c.Said != "" {
			fmt.Fprintf(&b, "  · %s\n", c.Said)
		}
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
	if n := len(o.NotAsked); n > 0 {
		fmt.Fprintf(&b, "\n%d more Pods are not well and were not looked at, %s the first of them.\n", n, o.NotAsked[0])
	}
	for _, text := range o.Unread {
		fmt.Fprintf(&b, "\nThis could not be read: %s\n", text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
