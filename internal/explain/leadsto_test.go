package explain

import (
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// An answer is joined with that about the object to which it leads, whose remedy comes first; one
// that leads to something that is well stays as it is.
func TestAnAnswerIsJoinedWithItsRoot(t *testing.T) {
	broken := []finding.Finding{{Code: "ProbeFails", Severity: finding.Broken,
		Object: finding.Object{Kind: "Pod", Namespace: "sys", Name: "guard"}}}
	a := Answer{Subject: "deployment/web in shop", State: "without Pods", Cause: "A webhook refuses.", Fixes: []Fix{
		commandFix("see why nothing stands behind it", "gantry why service/guard -n sys"),
		commandFix("or let requests pass", "kubectl patch x")}}
	about, ns := a.LeadsTo()
	if about != "service/guard" || ns != "sys" {
		t.Errorf("got %q in %q, want service/guard in sys", about, ns)
	}
	root := Answer{Subject: "service/guard in sys", State: "without endpoints", Cause: "Its Pod is not ready.",
		Findings: broken, Fixes: []Fix{commandFix("probe port 8443", "kubectl patch pod guard")}}
	got := a.Joined(root)
	if !strings.Contains(got.Cause, "because service/guard is without endpoints: Its Pod is not ready.") ||
		len(got.Findings) != 1 || got.Fixes[0].Description != "probe port 8443" {
		t.Errorf("got %q, %+v, %+v, want the root told and mended first", got.Cause, got.Findings, got.Fixes)
	}
	well := root
	well.Findings, well.State = nil, "Ready"
	if got := a.Joined(well); got.Cause != a.Cause {
		t.Errorf("got %q, want the cause unchanged", got.Cause)
	}
	atRisk := root
	atRisk.Findings = []finding.Finding{broken[0]}
	atRisk.Findings[0].Severity = finding.Threat
	if got := a.Joined(atRisk); got.Cause != a.Cause {
		t.Errorf("of what is at risk: got %q, want the cause unchanged", got.Cause)
	}
	if about, _ := (Answer{State: "not there", Code: NoSuchObject, Fixes: a.Fixes}).LeadsTo(); about != "" {
		t.Errorf("got %q, want nothing of what is not there", about)
	}
	if about, _ := (Answer{State: "Ready", Fixes: a.Fixes}).LeadsTo(); about != "" {
		t.Errorf("got %q, want nothing of what is well", about)
	}
}
