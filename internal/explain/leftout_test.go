package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// An answer that a DaemonSet is well says which nodes it leaves out, and why; one about what is not
// well, or that leaves none out, does not.
//
// row: RST-10
func TestAWellDaemonSetSaysWhatItLeavesOut(t *testing.T) {
	left := finding.Finding{Code: "NodeLeftOut", Severity: finding.Note, Message: "It is not wanted on node gpu-1.",
		Remedies: []finding.Remedy{{Say: "tolerate", Run: []string{"kubectl patch"}}}}
	const well = "All 2 Pods are ready; nothing blocks it."
	for _, c := range []struct {
		state string
		list  []finding.Finding
		want  string
		fixes int
	}{
		{"Ready", []finding.Finding{left}, "All 2 Pods are ready. It is not wanted on node gpu-1.", 1},
		{"Ready", []finding.Finding{{Code: "Other", Message: "m"}}, well, 0},
		{"Ready", nil, well, 0},
		{"not ready", []finding.Finding{left}, well, 0},
	} {
		a := Answer{State: c.state, Cause: well}
		if a.withoutNodes(c.list); a.Cause != c.want || len(a.Fixes) != c.fixes {
			t.Errorf("%s, %+v: got %q with %d fixes, want %q with %d", c.state, c.list, a.Cause, len(a.Fixes), c.want,
				c.fixes)
		}
	}
}

// What holds a roll-out leads before what one of its Pods waits for; a strategy that holds nothing
// now, or an answer about something else, stays.
func TestWhatHoldsARollOutLeads(t *testing.T) {
	held := finding.Finding{Code: "HeldByStrategy", Message: "The roll-out waits for itself.",
		Remedies: []finding.Remedy{{Say: "let one be away", Run: []string{"kubectl patch"}}}}
	old := finding.Finding{Code: "OldTemplateWaits", Message: "Its Pod is of an older template."}
	threat := held
	threat.Severity = finding.Threat
	for name, c := range map[string]struct {
		state   string
		finding finding.Finding
		leads   bool
	}{
		"held":              {stuckRollout, held, true},
		"an old template":   {"not ready", old, true},
		"held, not stuck":   {"not ready", held, false},
		"held, but not now": {stuckRollout, threat, false},
		"another matter":    {stuckRollout, finding.Finding{Code: "Warning", Message: "m"}, false},
	} {
		a := Answer{State: c.state, Cause: "Pod web-1 is Pending.", Fixes: textFixes("label the node")}
		leadWithStrategy(&a, []finding.Finding{c.finding})
		if leads := strings.HasPrefix(a.Cause, c.finding.Message); leads != c.leads ||
			!strings.HasSuffix(a.Cause, "Pod web-1 is Pending.") {
			t.Errorf("%s: got %q, want it to lead: %v", name, a.Cause, c.leads)
		}
		if c.leads && len(c.finding.Remedies) > 0 && a.Fixes[0].Description != "let one be away" {
			t.Errorf("%s: got %q first, want what lets it go on", name, a.Fixes[0].Description)
		}
	}
}

// A node of which no heartbeat is known is not said to have sent one ages ago.
func TestANodeWithoutHeartbeats(t *testing.T) {
	for name, c := range map[string]struct {
		last time.Duration
		want bool
	}{"never": {0, false}, "a minute ago": {time.Minute, true}} {
		n := node(corev1.ConditionUnknown)
		if c.last > 0 {
			n.Status.Conditions[0].LastHeartbeatTime = at(-c.last)
		}
		a := WhyObject(Subject{Now: t0, Kind: "node", Name: "n1", Object: n})
		if got := strings.Contains(a.Cause, "last heard of"); got != c.want {
			t.Errorf("%s: got %q, want a time: %v", name, a.Cause, c.want)
		}
	}
}

// A Pod of nobody whose program has done its work may end; what a workload makes has to run on.
func TestWorkThatIsDoneMayEnd(t *testing.T) {
	for owner, want := range map[string]bool{"": true, "ReplicaSet": false} {
		in := base()
		s := in.state(waiting("CrashLoopBackOff", ""))
		s.RestartCount, s.LastTerminationState.Terminated = 3, ended0(0, "Completed")
		if owner != "" {
			in.Pod.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Name: "web", Controller: ptr.To(true)}}
		}
		if got := strings.Contains(text(t, Why(in)), `"restartPolicy":"OnFailure"`); got != want {
			t.Errorf("made by %q: got it to end %v, want %v", owner, got, want)
		}
	}
}
