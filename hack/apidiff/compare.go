package main

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// masked are texts that differ between runs.
var masked = []struct {
	find *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "<uid>"},
	{regexp.MustCompile(`202[67]-(1[12]|01)-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`"resourceVersion":"\d+"`), `"resourceVersion":"<resourceVersion>"`}, // of a watch's events
	{regexp.MustCompile(`(Too large resource version: \d+, current): \d+`), "$1: <resourceVersion>"},
	{regexp.MustCompile(`(ResourceVersion in (?:record|object meta):? \(?)\d+`), "$1<resourceVersion>"},
	{regexp.MustCompile(`(resourceVersion\\*":\\*")\d+`), "$1<resourceVersion>"}, // of an object that a message shows
	{regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`), "kube-api-access-<random>"},
	{regexp.MustCompile(`\b10\.96\.\d+\.\d+`), "<address>"},
	{regexp.MustCompile(`^\d+(s|m(\d+s)?)$`), "<age>"},
	{regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`), "<token>"},
	{regexp.MustCompile(
		`\*?\b(core|apps|batch|policy|autoscaling|rbac|networking|storage|certificates|resource|discovery|` +
			`coordination|scheduling|node|admissionregistration|v1|v1beta1|v2)\.([A-Z]\w+)`), "$2"},
	{regexp.MustCompile(`(?s)\n@@ .*$`), ""}, // how one Go value differs from another
	{regexp.MustCompile(`(?s)Invalid value: \{.*\}: field is immutable`), "Invalid value: …: field is immutable"},
}

// dropped are fields that differ between runs, in every object.
var dropped = []string{"uid", "resourceVersion", "creationTimestamp", "time"}

// mask removes from an answer what differs between runs.
func mask(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			if slices.Contains(dropped, k) {
				if _, text := e.(string); text {
					x[k] = "<" + k + ">"
				}
				continue
			}
			if token, text := e.(string); text && k == "continue" {
				x[k] = continued(token)
				continue
			}
			if n, number := e.(float64); number && (k == "nodePort" || k == "healthCheckNodePort") && n >= 30000 {
				x[k] = "<" + k + ">"
				continue
			}
			x[k] = mask(e)
		}
		return x
	case []any:
		for i := range x {
			x[i] = mask(x[i])
		}
		return x
	case string:
		for _, m := range masked {
			x = m.find.ReplaceAllString(x, m.put)
		}
		return x
	}
	return v
}

var tokenRevision = regexp.MustCompile(`"rv":\d+`)

// continued is where a list continues, without the revision.
func continued(token string) string {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return token
	}
	return tokenRevision.ReplaceAllString(string(raw), `"rv":0`)
}

// finding is one cause of different answers.
type finding struct {
	cause    string
	count    int
	examples []string
	records  []record
}

// record is a request with different answers and the reference's answer: a case for go test.
type record struct {
	Setup *recorded `json:"setup,omitempty"` // an object to create first; it may exist already
	recorded
	Table bool            `json:"table,omitempty"`
	Code  int             `json:"code"`
	Want  json.RawMessage `json:"want"`
}

// recorded is a request as stored in a file.
type recorded struct {
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Type   string          `json:"type,omitempty"` // Content-Type of a patch
	Body   json.RawMessage `json:"body,omitempty"`
}

// recordOf makes a case of a request; fields of one server's object are removed from the body.
func recordOf(r request, theirs answer, setup *recorded) *record {
	out := &record{Setup: setup, Table: r.Headers["Accept"] == asTable, Code: theirs.code}
	out.recorded = recorded{Method: r.Method, Path: r.Path, Type: r.Headers["Content-Type"]}
	var body map[string]any
	if json.Unmarshal([]byte(r.Body), &body) == nil {
		if meta, _ := body["metadata"].(map[string]any); meta != nil && setup != nil {
			for _, k := range []string{"uid", "creationTimestamp", "managedFields"} {
				delete(meta, k)
			}
			if meta["resourceVersion"] != nil {
				meta["resourceVersion"] = "LIVE"
			}
		}
		out.Body, _ = json.Marshal(body)
	}
	var said any = map[string]any{}
	if v, ok := decode(theirs).(map[string]any); ok {
		switch {
		case theirs.code >= http.StatusBadRequest:
			said = map[string]any{"message": v["message"], "reason": v["reason"], "details": v["details"]}
		case out.Table:
			rows, _ := v["rows"].([]any)
			for i := range rows {
				rows[i] = map[string]any{"cells": rows[i].(map[string]any)["cells"],
					"conditions": rows[i].(map[string]any)["conditions"]}
			}
			said = map[string]any{"columnDefinitions": v["columnDefinitions"], "rows": rows}
		}
	}
	out.Want, _ = json.Marshal(said)
	return out
}

// findings are the findings of a run. Safe for concurrent use.
type findings struct {
	mu       sync.Mutex
	byCause  map[string]*finding
	compared int
	unequal  int
}

// add records a comparison; no causes: the answers were equal.
func (f *findings) add(causes []string, example string, rec *record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.compared++
	if len(causes) == 0 {
		return
	}
	f.unequal++
	if f.byCause == nil {
		f.byCause = map[string]*finding{}
	}
	for _, c := range causes {
		x := f.byCause[c]
		if x == nil {
			x = &finding{cause: c}
			f.byCause[c] = x
		}
		if x.count++; len(x.examples) < 3 {
			x.examples = append(x.examples, example)
			if rec != nil && len(x.records) < 2 {
				x.records = append(x.records, *rec)
			}
		}
	}
}

// write adds the recorded cases to a file, one a line, without duplicates.
func (f *findings) write(path string) error {
	seen := map[string]bool{}
	raw, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	lines := slices.DeleteFunc(strings.Split(string(raw), "\n"), func(l string) bool { return l == "" })
	for _, l := range lines {
		seen[l] = true
	}
	for _, c := range slices.Sorted(maps.Keys(f.byCause)) {
		for _, r := range f.byCause[c].records {
			line, err := json.Marshal(r)
			if err != nil {
				return err
			}
			if !seen[string(line)] {
				seen[string(line)] = true
				lines = append(lines, string(line))
			}
		}
	}
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

func (f *findings) print(w io.Writer, examples int) {
	list := slices.SortedFunc(maps.Values(f.byCause), func(a, b *finding) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.cause, b.cause))
	})
	fmt.Fprintf(w, "%d answers compared, %d differ, %d causes\n", f.compared, f.unequal, len(list))
	for _, x := range list {
		fmt.Fprintf(w, "%5d %s\n", x.count, x.cause)
		for i, e := range x.examples {
			if i < examples {
				fmt.Fprintf(w, "      %s\n", e)
			}
		}
	}
}

var (
	index  = regexp.MustCompile(`\[[^\]]*\]`)
	quoted = regexp.MustCompile(`"(\\.|[^"\\])*"|-?\b\d+\b`)
)

func pattern(s string) string {
	s = quoted.ReplaceAllString(index.ReplaceAllString(s, "[]"), "…")
	return first(s, 300)
}

func first(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}

// apart returns two texts without most of what they begin with alike.
func apart(a, b string) (string, string) {
	const before = 60
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	if at <= before {
		return a, b
	}
	return "…" + a[at-before:], "…" + b[at-before:]
}

// differences returns patterns of how two answers differ.
func differences(ours, theirs answer) []string {
	var out []string
	a, b := decode(ours), decode(theirs)
	if ours.code != theirs.code {
		out = append(out, fmt.Sprintf("code %d, theirs %d: ours %s, theirs %s", ours.code, theirs.code,
			pattern(responseText(a, ours)), pattern(responseText(b, theirs))))
		return out
	}
	for _, h := range []string{"Warning", "Content-Type", "Retry-After", "Allow", "Location"} {
		x, y := fmt.Sprint(mask(strings.Join(ours.headers.Values(h), "\n"))),
			fmt.Sprint(mask(strings.Join(theirs.headers.Values(h), "\n")))
		if x != y {
			out = append(out, fmt.Sprintf("header %s: ours %s, theirs %s", h, x, y))
		}
	}
	if theirs.code >= http.StatusBadRequest {
		return append(out, refusals(a, b)...)
	}
	compare("", a, b, func(path, x, y string) {
		x, y = apart(x, y)
		out = append(out, fmt.Sprintf("%s: ours %s, theirs %s", index.ReplaceAllString(path, "[]"), first(x, 200),
			first(y, 200)))
	})
	return out
}

func decode(a answer) any {
	var v any
	if json.Unmarshal(a.body, &v) != nil {
		return mask(string(a.body))
	}
	return mask(v)
}

func responseText(v any, a answer) string {
	if m, ok := v.(map[string]any); ok && a.code >= http.StatusBadRequest {
		return fmt.Sprint(m["message"])
	}
	return "accepts"
}

// refusals compares two Status objects cause by cause, so that each group is one rule.
func refusals(a, b any) []string {
	if reflect.DeepEqual(a, b) {
		return nil
	}
	x, y := causes(a), causes(b)
	var out []string
	for _, c := range x {
		if !slices.Contains(y, c) {
			out = append(out, "refused only by ours: "+pattern(c))
		}
	}
	for _, c := range y {
		if !slices.Contains(x, c) {
			out = append(out, "refused only by theirs: "+pattern(c))
		}
	}
	if len(out) == 0 && !reflect.DeepEqual(x, y) {
		return []string{"order of refusals: ours " + first(pattern(strings.Join(x, "; ")), 200) + " theirs " +
			first(pattern(strings.Join(y, "; ")), 200)}
	}
	if len(out) == 0 {
		compare("", a, b, func(path, x, y string) {
			x, y = apart(x, y)
			out = append(out, fmt.Sprintf("refusal%s: ours %s, theirs %s", path, first(x, 300), first(y, 300)))
		})
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func causes(v any) []string {
	m, _ := v.(map[string]any)
	d, _ := m["details"].(map[string]any)
	list, _ := d["causes"].([]any)
	var out []string
	for _, c := range list {
		c, _ := c.(map[string]any)
		out = append(out, fmt.Sprintf("%v %v: %v", c["reason"], c["field"], c["message"]))
	}
	return out
}

// compare walks two values and reports differences.
func compare(path string, a, b any, report func(path, a, b string)) {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			keys := map[string]bool{}
			for k := range x {
				keys[k] = true
			}
			for k := range y {
				keys[k] = true
			}
			for _, k := range slices.Sorted(maps.Keys(keys)) {
				compare(path+"."+k, x[k], y[k], report)
			}
			return
		}
	case []any:
		if y, ok := b.([]any); ok && len(x) == len(y) {
			for i := range x {
				compare(fmt.Sprintf("%s[%d]", path, i), x[i], y[i], report)
			}
			return
		}
	}
	if !reflect.DeepEqual(a, b) {
		report(path, short(a), short(b))
	}
}

func short(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}
