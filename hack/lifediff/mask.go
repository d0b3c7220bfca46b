package main

import (
	"os"
	"regexp"

	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/test/replay"
	"github.com/gantry-project/gantry/test/replay/pods"
)

// values are what differs from run to run, and the mask that stands for it in recordings.
var values = []struct {
	find *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "<t>"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "<uid>"},
	{regexp.MustCompile(`sha256:[0-9a-f]{64}`), "sha256:<digest>"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "<cid>"},
	{regexp.MustCompile(`\b(10\.\d+\.\d+\.\d+):\d+->`), "<local-addr>->"},
	{regexp.MustCompile(`\b10\.\d+\.\d+\.\d+\b`), "<pod-ip>"},
	{regexp.MustCompile(`kube-api-access-[a-z0-9]{5}\b`), "kube-api-access-<r>"},
	{regexp.MustCompile(`\bin [\d.]+m?s \([\d.]+m?s including waiting\)`), "in <dur> (<dur> including waiting)"},
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "<hash>"},
	{regexp.MustCompile(`127\.0\.0\.1:\d{5}\b`), "127.0.0.1:<port>"},
}

func maskText(s string) string {
	for _, v := range values {
		s = v.find.ReplaceAllString(s, v.put)
	}
	return s
}

// untimed is a text without what differs from run to run, the time of a state among it.
func untimed(s string) string { return stateTime.ReplaceAllString(maskText(s), "") }

var stateTime = regexp.MustCompile(`\bt=[\d.]+ `)

// masked is what was seen in the form of the recordings.
func masked(r pods.Recording) pods.Recording {
	for _, part := range []*[]map[string]any{&r.History, &r.Events, &r.Objects, &r.Replies} {
		*part = maskLines(*part)
	}
	output := make([]pods.Command, 0, len(r.Output))
	for _, c := range r.Output {
		c.Line = maskText(c.Line)
		body := make([]string, 0, len(c.Body))
		for _, line := range c.Body {
			body = append(body, maskText(line))
		}
		c.Body = body
		output = append(output, c)
	}
	r.Output = output
	return r
}

func maskLines(lines []map[string]any) []map[string]any {
	out := make([]map[string]any, 0, len(lines))
	for _, l := range lines {
		out = append(out, maskValue(l).(map[string]any))
	}
	return out
}

// maskValue masks every text of decoded JSON.
func maskValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = maskValue(x)
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, x := range v {
			out = append(out, maskValue(x))
		}
		return out
	case string:
		return maskText(v)
	}
	return v
}

// intended is a difference that is a decision. Life, Path, Want and Got are regular expressions; an
// empty one matches anything.
type intended struct {
	Life string `json:"life"`
	Path string `json:"path"`
	Want string `json:"want"`
	Got  string `json:"got"`
	Why  string `json:"why"`
}

func loadIntended(path string) ([]intended, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []intended
	if err := yaml.UnmarshalStrict(raw, &out); err != nil {
		return nil, err
	}
	for _, i := range out {
		for _, expr := range []string{i.Life, i.Path, i.Want, i.Got} {
			if _, err := regexp.Compile(expr); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func (i intended) matches(c pods.Case, d replay.Difference) bool {
	for _, m := range [][2]string{{i.Life, c.Area + "/" + c.Name}, {i.Path, d.Path}, {i.Want, d.Want}, {i.Got, d.Got}} {
		if !regexp.MustCompile(m[0]).MatchString(m[1]) {
			return false
		}
	}
	return true
}

// sort parts the intended differences, counted by reason, from the others.
func (r *comparison) sort(c pods.Case, diffs []replay.Difference) (others []replay.Difference, known map[string]int) {
	known = map[string]int{}
next:
	for _, d := range diffs {
		for _, i := range r.intended {
			if i.matches(c, d) {
				known[i.Why]++
				continue next
			}
		}
		others = append(others, d)
	}
	return others, known
}
