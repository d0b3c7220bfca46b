package explain

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// bySetting are codes of what somebody set and what is done as it says: nothing is broken, though
// it may not be what was meant.
var bySetting = []string{"HeldByStrategy", "ParallelismZero", "AutoscalingDisabled", "OtherController"}

// stateWord is what an object is called for a finding that hinders it.
func stateWord(f finding.Finding) string {
	switch {
	case slices.Contains(bySetting, f.Code):
		return "held"
	case f.Severity == finding.Threat:
		return "at risk"
	}
	return "broken"
}

// unspecific are codes of findings that repeat what somebody said.
var unspecific = []string{"PodsRefused", "Warning", "Hindered"}

// leadWithCause puts the first finding that says why in place of a cause that says only what has
// not happened, and its remedies in place of guesses.
func (a *Answer) leadWithCause(more []finding.Finding) {
	worst := finding.Broken
	if a.State == string(corev1.ClaimPending) {
		worst = finding.Threat
	}
	i := slices.IndexFunc(more, func(f finding.Finding) bool {
		return f.Severity <= worst && slices.Contains(a.causedAt, f.Stage) && !slices.Contains(unspecific, f.Code)
	})
	if i < 0 {
		return
	}
	a.Cause = more[i].Message
	if len(more[i].Remedies) > 0 {
		a.Fixes = remedies(more[i].Remedies)
	}
}

// leadWithReference puts before the cause of a Pod that finds no node what its claims refer to
// and is missing: without that they are never bound.
func leadWithReference(a *Answer, more []finding.Finding) {
	if !strings.Contains(a.Cause, noNodeFits) {
		return
	}
	i := slices.IndexFunc(more, func(f finding.Finding) bool {
		return f.Severity == finding.Broken && f.Object.Kind == "PersistentVolumeClaim" && !f.Names(a.Cause) ||
			f.Severity != finding.Note && slices.Contains(setsPlacement, f.Object.Kind) &&
				!strings.Contains(a.Cause, f.Message)
	})
	if i < 0 {
		return
	}
	f := more[i]
	a.Cause = f.Message + " " + a.Cause
	a.Fixes = slices.DeleteFunc(a.Fixes, func(x Fix) bool {
		setAgain := slices.ContainsFunc(x.nodeLabels, func(l string) bool { return slices.Contains(f.NodeLabels, l) })
		return setAgain || f.Object.Kind == "StorageClass" && !x.Proven // no other node would help
	})
	if len(f.Remedies) > 0 {
		a.Fixes = append(remedies(f.Remedies), a.Fixes...)
	}
}

// leadWithStrategy puts before the cause of a roll-out that does not go on that its own strategy
// holds it: what one Pod waits for is a part of that.
func leadWithStrategy(a *Answer, more []finding.Finding) {
	i := slices.IndexFunc(more, func(f finding.Finding) bool {
		return (f.Code == "HeldByStrategy" && a.State == stuckRollout || f.Code == "OldTemplateWaits") &&
			f.Severity == finding.Broken && !strings.Contains(a.Cause, f.Message)
	})
	if i < 0 {
		return
	}
	a.Cause = more[i].Message + " " + a.Cause
	a.Fixes = withoutDoubles(append(remedies(more[i].Remedies), a.Fixes...))
}

// completeKey adds of which object a key is missing, and what that has, to a cause that names the
// key alone.
func completeKey(a *Answer, more []finding.Finding) {
	for _, f := range more {
		if f.Code == "KeyMissing" && f.Severity == finding.Broken && len(f.Related) > 0 &&
			strings.Contains(a.Cause, f.Value) && !strings.Contains(a.Cause, f.Related[0].Name) {
			a.Cause = strings.TrimSuffix(strings.TrimSpace(a.Cause), ".") + ". " + f.Message
		}
	}
}

// setsPlacement are kinds that decide beside a Pod's own spec where it may run: what they set
// stands in no template, and is set again.
var setsPlacement = []string{"StorageClass", "RuntimeClass", "MutatingAdmissionPolicy",
	"MutatingWebhookConfiguration"}
