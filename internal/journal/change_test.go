package journal

import (
	"encoding/json"
	"strings"
	"testing"
)

// Changes have paths as people write them.
func TestPathsOfChanges(t *testing.T) {
	for name, row := range map[string]struct{ was, now, want string }{
		"scalar": {`{"spec":{"a":1}}`, `{"spec":{"a":2}}`, `~ spec.a: 1 → 2`},
		"by name": {`{"c":[{"name":"x","i":"1"},{"name":"y"}]}`, `{"c":[{"name":"y"},{"name":"x","i":"2"}]}`,
			`~ c[x].i: "1" → "2"`},
		"by place": {`{"c":["a","b"]}`, `{"c":["a","c"]}`, `~ c[1]: "b" → "c"`},
		"new element": {`{"c":[{"name":"x"}]}`, `{"c":[{"name":"x"},{"name":"z","v":true}]}`,
			`+ c[z]: {name: "z", v: true}`},
		"gone": {`{"metadata":{"labels":{"a":"b","c":"d"}}}`, `{"metadata":{"labels":{"a":"b"}}}`,
			`- metadata.labels.c: "d"`},
		"dotted key": {`{"l":{"q":"r"}}`, `{"l":{"q":"r","a.b/c":"1"}}`, `+ l[a.b/c]: "1"`},
		"whole parts": {`{}`, `{"metadata":{"labels":{"a":"b"}},"spec":{"n":1}}`,
			"+ metadata.labels: {a: \"b\"}\n+ spec.n: 1"},
		"left out":     {`{"kind":"Pod","metadata":{"managedFields":[1]}}`, `{"metadata":{"managedFields":[2]}}`, ``},
		"empty is not": {`{"a":{}}`, `{"b":[]}`, ``},
	} {
		var was, now map[string]any
		if json.Unmarshal([]byte(row.was), &was) != nil || json.Unmarshal([]byte(row.now), &now) != nil {
			t.Fatalf("got %v, want no Unmarshal and no Unmarshal", name)
		}
		var got []string
		for _, c := range Changes(was, now) {
			got = append(got, c.Line())
		}
		if s := strings.Join(got, "\n"); s != row.want {
			t.Errorf("%s: %s, want %s", name, s, row.want)
		}
	}
}
