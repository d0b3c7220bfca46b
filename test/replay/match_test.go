package replay

import (
	"encoding/json"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		want, got string
		same      bool
	}{
		{"plain", "plain", true},
		{"plain", "other", false},
		{"<uid>", "0b5f3c1e-2d4a-4c6b-8e9f-001122334455", true},
		{"<uid>", "not an id", false},
		{"pod p_ns(<uid1>) died", "pod p_ns(0b5f3c1e-2d4a-4c6b-8e9f-001122334455) died", true},
		{"<rv>", "17", true},
		{"<rv>", "", false},
		{"<time>", "2026-01-02T03:04:05Z", true},
		{"<time>", "yesterday", false},
		{"web-<hash1>-<r2>", "web-5845fb8654-x7k2p", true},
		{"web-<hash1>-<r2>", "api-5845fb8654-x7k2p", false},
		{"<none>", "<none>", true},
		{"<none>", "10.0.0.1", false},
		{"cannot be handled: converting (v1.Pod) to (core.Pod)", "cannot be handled: converting (v1.Pod) to (v1.Pod)",
			true},
		{"may not change\n@@ -1 +1 @@\n-a", "may not change\n@@ -7 +7 @@\n-b", true},
		{"json: cannot unmarshal string into Go value of type core.X",
			"json: cannot unmarshal string into Go struct field Y.z of type int", true},
	} {
		if got := Match(c.want, c.got); got != c.same {
			t.Errorf("Match(%q, %q) = %v, want %v", c.want, c.got, got, c.same)
		}
	}
}

func TestCompareNamesThePlace(t *testing.T) {
	for _, c := range []struct {
		name, want, got string
		places          []string
	}{
		{"equal, masked", `{"a":"<uid>","n":"<nodePort>"}`, `{"a":"0b5f3c1e-2d4a-4c6b-8e9f-001122334455","n":30123}`,
			nil},
		{"value", `{"a":{"b":1}}`, `{"a":{"b":2}}`, []string{".a.b"}},
		{"missing", `{"a":1,"b":2}`, `{"a":1}`, []string{".b"}},
		{"too much", `{"a":1}`, `{"a":1,"b":2}`, []string{".b"}},
		{"null is not nothing", `{"a":null}`, `{}`, []string{".a"}},
		{"order counts", `[1,2]`, `[2,1]`, []string{"[0]", "[1]"}},
		{"list element missing", `[{"n":"a"},{"n":"b"}]`, `[{"n":"b"}]`, []string{"[]"}},
		{"masked key", `{"k:{\"uid\":\"<uid>\"}":{}}`, `{"k:{\"uid\":\"0b5f3c1e-2d4a-4c6b-8e9f-001122334455\"}":{}}`,
			nil},
	} {
		var w, g any
		if json.Unmarshal([]byte(c.want), &w) != nil || json.Unmarshal([]byte(c.got), &g) != nil {
			t.Fatalf("got %v, want no Unmarshal and no Unmarshal", c.name)
		}
		diffs := Compare("", w, g)
		if len(diffs) != len(c.places) {
			t.Errorf("%s: got %v, want %v in diffs", c.name, diffs, len(c.places))
			continue
		}
		for i, d := range diffs {
			if d.Path != c.places[i] {
				t.Errorf("%s: difference at %s, want %s", c.name, d.Path, c.places[i])
			}
		}
	}
}
