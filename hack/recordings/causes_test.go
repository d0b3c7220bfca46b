package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/test/replay"
)

func TestExplain(t *testing.T) {
	unequal := []replay.Unequal{
		{Name: "phases/loop", Differences: []replay.Difference{
			{Path: "history p state", Want: "nothing",
				Got: "t=3.0 c[c].state.waiting.reason=CrashLoopBackOff phase=Running"},
			{Path: "get p.STATUS", Want: "Error", Got: "CrashLoopBackOff"}, // follows from it
		}},
		{Name: "protocol/discovery/legacy-version",
			Differences: []replay.Difference{{Path: ".minor", Want: `"36"`, Got: `"37"`}}},
		{Name: "validation/thing/bad", Differences: []replay.Difference{{Path: "code", Want: "422", Got: "201 {}"}}},
		{Name: "conditions/odd", Err: errors.New("no answer")},
		{Name: "phases/both", Differences: []replay.Difference{
			{Path: "history p state", Want: "nothing", Got: "CrashLoopBackOff"},
			{Path: "output of step 1 (kubectl logs p) result", Want: "a", Got: "b"},
		}},
	}
	list, meant := explain(unequal)
	if meant != 2 {
		t.Errorf("%d cases differ only as meant, want 2", meant)
	}
	byCase := map[string][]string{}
	for _, f := range list {
		for _, c := range f.cases {
			byCase[c] = append(byCase[c], f.what)
		}
	}
	for name, want := range map[string][]string{
		"phases/loop":                       {"A back-off ends when its time is over"},
		"protocol/discovery/legacy-version": {"The version is v1.37"},
		"validation/thing/bad":              {"validation/thing: accepted where upstream refuses"},
		"conditions/odd":                    {"conditions: not served"},
		"phases/both":                       {"A back-off ends when its time is over", "phases: other answers"},
	} {
		if len(byCase[name]) != len(want) {
			t.Errorf("%s: got %q, want %v in byCase[name]", name, byCase[name], len(want))
			continue
		}
		all := strings.Join(byCase[name], "; ")
		for _, w := range want {
			if !strings.Contains(all, w) {
				t.Errorf("%s: %q, want %q", name, all, w)
			}
		}
	}
}

// An intended difference has a reason; one to be done has none and names its component.
func TestCausesAreComplete(t *testing.T) {
	for _, c := range causes {
		if c.what == "" || c.why == "" && c.where == "" {
			t.Errorf("row %q: say what is otherwise, and why it is meant or where it waits", c.match)
		}
	}
}
