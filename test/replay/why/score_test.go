package why

import "testing"

// A fact counts only where one statement tells it; proposals and other lines' numbers do not, and a
// cause without facts is none.
func TestFactsAreScoredByStatement(t *testing.T) {
	f := Fixture{Expected: Expected{MustMention: []Mention{{Fact: "short on n1", Any: []string{"n1.*500m"}},
		{Fact: "cpu", Any: []string{"cpu"}}}, MustNotClaim: []Claim{{Claim: "memory", Any: []string{"memory"}}}}}
	for name, c := range map[string]struct {
		answer  Answer
		cause   bool
		mention bool
		claim   bool
	}{
		"told by the cause": {Answer{Cause: "n1 is 500m short of cpu"}, true, true, true},
		"a number of another node": {Answer{Cause: "n1 is full of cpu", Facts: []string{"n2: 500m"}}, true, false,
			true},
		"only proposed": {Answer{Cause: "no node", Fixes: []Fix{{Description: "free 500m cpu on n1"}}}, false, false,
			true},
		"told as data": {Answer{Cause: "no cpu", Findings: []Finding{{Message: "n1", Value: "500m"}}}, true, true,
			true},
		"a note is no fact": {Answer{Cause: "no cpu", Findings: []Finding{{Severity: "note", Message: "n1 500m"}}},
			true, false,
			true},
		"claimed as data": {Answer{Cause: "n1 500m cpu", Findings: []Finding{{Severity: "broken", Message: "memory"}}},
			false,
			true, false},
	} {
		s, err := Evaluate(f, c.answer)
		if err != nil || s.Cause != c.cause || s.Mention != c.mention || s.Claim != c.claim {
			t.Errorf("%s: got cause %v facts %v claim %v (%v), want %v %v %v", name, s.Cause, s.Mention, s.Claim, err,
				c.cause,
				c.mention, c.claim)
		}
	}
}

// Commands that read only are no remedies.
func TestCommandsThatLookAreNoRemedies(t *testing.T) {
	for line, want := range map[string]bool{"kubectl -n a logs web -c app --previous": true,
		"gantry why pod/web -n a":                                    true,
		"kubectl get pod web -o json | kubectl replace --force -f -": false, "kubectl -n a delete pod web": false,
		"kubectl uncordon n1": false} {
		if got := (Fix{Run: []string{line}}).isDiagnostic(); got != want {
			t.Errorf("%s: got %v, want %v", line, got, want)
		}
	}
	if (Fix{Run: []string{"kubectl get pods", "kubectl uncordon n1"}}).isDiagnostic() {
		t.Error("a remedy of which one command changes something only looks; want that it changes")
	}
}
