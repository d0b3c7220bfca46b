package explain

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/trace/packet"
)

// An answer is joined with that about the object to which it leads, whose remedy comes first; one
// that leads to something that is well stays as it is.
//
// row: RST-10
func TestAnAnswerIsJoinedWithItsRoot(t *testing.T) {
	broken := []finding.Finding{{Code: "ProbeFails", Severity: finding.Broken,
		Object: finding.Object{Kind: "Pod", Namespace: "sys", Name: "guard"}}}
	a := Answer{Subject: "deployment/web in shop", State: "without Pods", Cause: "A webhook refuses.", Fixes: []Fix{
		seeWhy("see why nothing stands behind it", "Service", "sys", "guard"),
		commandFix("or let requests pass", "kubectl patch x")}}
	if to, ok := a.LeadsTo(); !ok || to.String() != "service/guard -n sys" {
		t.Errorf("got %q, want service/guard -n sys", to)
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
	if to, ok := (Answer{State: "Ready", Fixes: a.Fixes}).LeadsTo(); ok {
		t.Errorf("got %q, want nothing of what is well", to)
	}
	// what an answer only offers to look at is no reason, whatever the command
	ask := Answer{State: "not there", Fixes: []Fix{commandFix("ask about web-1", "gantry why pod/web-1 -n shop")}}
	if to, ok := ask.LeadsTo(); ok {
		t.Errorf("got %q, want nothing of what was perhaps meant", to)
	}
}

// What a finding or a packet's trace leads to reaches the answer as data.
func TestARemedyKeepsWhatItLeadsTo(t *testing.T) {
	guard := finding.Object{Kind: "Service", Namespace: "sys", Name: "guard"}
	for name, fix := range map[string]Fix{
		"of a finding":     remedies([]finding.Remedy{finding.SeeWhy("see why", guard)})[0],
		"as data and back": remedies(asRemedies(remedies([]finding.Remedy{finding.SeeWhy("see why", guard)})))[0],
		"of a packet": packetFix(packet.Fix{Description: "see why", Run: "gantry why service/guard -n sys",
			See: &corev1.ObjectReference{Kind: "Service", Namespace: "sys", Name: "guard"}}),
	} {
		if fix.See == nil || *fix.See != guard || fix.onlyReads() || len(fix.Run) != 1 ||
			fix.Run[0] != "gantry why service/guard -n sys" {
			t.Errorf("%s: got %+v, want a fix that leads to %v", name, fix, guard)
		}
	}
	if f := remedies([]finding.Remedy{{Say: "ask", Run: []string{"gantry why pod/a"}}})[0]; !f.onlyReads() {
		t.Errorf("got %+v, want a fix that only reads", f)
	}
}
