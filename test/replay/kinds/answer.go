package kinds

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Mask replaces what differs from run to run.
type Mask struct {
	now       time.Time      // times within a day of it are the run's
	generated *regexp.Regexp // a name made from the request's generateName; nil: none
}

var (
	anyTime    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	anyUID     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	anyAddress = regexp.MustCompile(`\b10\.(9|96)\.\d+\.\d+`) // of the server's range and a seed's
	nodePort   = regexp.MustCompile(`\b3[0-2]\d{3}\b`)
	version    = regexp.MustCompile(`"resourceVersion":"\d+"`)
	age        = regexp.MustCompile(`^(\d+[ydhms])+$`)
	ago        = regexp.MustCompile(`\((\d+[ydhms])+ ago\)`)
	goType     = regexp.MustCompile(`\*?\b(core|apps|batch|policy|autoscaling|rbac|networking|storage|certificates|` +
		`resource|discovery|coordination|scheduling|node|admissionregistration|flowcontrol|v1|v1beta1|v2)\.([A-Z]\w+)`)
	storeKey  = regexp.MustCompile(`Key: /[^,]*`)
	goDiff    = regexp.MustCompile(`(?s)\n@@ .*$`)
	immutable = regexp.MustCompile(`(?s)Invalid value: (\{.*\}|\[\{.*\}\]): field is immutable`)
)

// randomSuffix is how long the random end of a generated name is, longestBase how much of a
// generateName is used.
const (
	randomSuffix = 5
	longestBase  = 58
)

// NewMask returns the mask of a request at a time.
func NewMask(body []byte, now time.Time) Mask {
	m := Mask{now: now}
	var o struct {
		Metadata struct{ GenerateName string }
	}
	if json.Unmarshal(body, &o) == nil && o.Metadata.GenerateName != "" {
		base := o.Metadata.GenerateName
		m.generated = regexp.MustCompile(fmt.Sprintf(`%s[a-z0-9]{%d}`,
			regexp.QuoteMeta(base[:min(len(base), longestBase)]), randomSuffix))
	}
	return m
}

// Text masks a text.
func (m *Mask) Text(s string) string {
	const lengthOfUID, lengthOfTime = 36, 20
	if len(s) >= lengthOfUID {
		s = anyUID.ReplaceAllString(s, "<uid>")
	}
	if m.generated != nil {
		s = m.generated.ReplaceAllString(s, "<generated>")
	}
	if len(s) >= lengthOfTime {
		s = anyTime.ReplaceAllStringFunc(s, func(t string) string {
			if at, err := time.Parse(time.RFC3339, t); err == nil && at.Sub(m.now).Abs() < 24*time.Hour {
				return "<time>"
			}
			return t
		})
	}
	s = replace(s, "10.", anyAddress, "<address>")
	s = replace(s, "resourceVersion", version, `"resourceVersion":"<version>"`)
	s = replace(s, "Key: /", storeKey, "Key: …")
	s = replace(s, ".", goType, "$2")
	s = replace(s, "@@", goDiff, "")
	s = replace(s, "field is immutable", immutable, "Invalid value: …: field is immutable")
	return replace(s, "3", nodePort, "<port>")
}

// replace replaces what the pattern matches, which always has the mark in it: most texts have it
// not, and are not searched.
func replace(s, mark string, pattern *regexp.Regexp, with string) string {
	if !strings.Contains(s, mark) {
		return s
	}
	return pattern.ReplaceAllString(s, with)
}

// Refusal returns the answer of a refused request.
func Refusal(s *metav1.Status, m Mask) Answer {
	out := Answer{Code: int(s.Code)}
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			out.Findings = append(out.Findings, m.Text(fmt.Sprintf("%s %s: %s", c.Type, c.Field, c.Message)))
		}
	}
	// 400 is in the words of the decoder, 409 in those of the store
	if len(out.Findings) == 0 && s.Code != 400 && s.Code != 409 {
		out.Message = m.Text(s.Message)
	}
	return out
}

// dropped are the fields of metadata that a store fills.
var dropped = []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink"}

// Content returns an object without what a store fills, masked.
func (m *Mask) Content(raw []byte) (json.RawMessage, error) {
	var obj map[string]any
	if err := json.Unmarshal(raw, &obj); err != nil {
		return nil, err
	}
	if meta, ok := obj["metadata"].(map[string]any); ok {
		for _, k := range dropped {
			delete(meta, k)
		}
	}
	return json.Marshal(m.value(obj))
}

func (m *Mask) value(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k := range x {
			if n, ok := x[k].(float64); ok && (k == "nodePort" || k == "healthCheckNodePort") && n >= 30000 {
				x[k] = "<port>"
				continue
			}
			x[k] = m.value(x[k])
		}
	case []any:
		for i := range x {
			x[i] = m.value(x[i])
		}
	case string:
		return m.Text(x)
	}
	return v
}

// Delta returns how an object differs from another, path by path: "path=value" of what is another,
// "path-" of what is not there. Both are results of Content.
func Delta(base, obj json.RawMessage) ([]string, error) {
	a, b := map[string]string{}, map[string]string{}
	for raw, into := range map[*json.RawMessage]map[string]string{&base: a, &obj: b} {
		var v any
		if err := json.Unmarshal(*raw, &v); err != nil {
			return nil, err
		}
		flatten("", v, into)
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(b)) {
		if was, ok := a[k]; !ok || was != b[k] {
			out = append(out, k+"="+b[k])
		}
	}
	for _, k := range slices.Sorted(maps.Keys(a)) {
		if _, ok := b[k]; !ok {
			out = append(out, k+"-")
		}
	}
	return out, nil
}

// content returns the object of a base; of a refused one, an empty one.
func (a *Answer) content() json.RawMessage {
	if a.Object == nil {
		return json.RawMessage(`{}`)
	}
	return a.Object
}

func flatten(path string, v any, into map[string]string) {
	switch x := v.(type) {
	case map[string]any:
		if len(x) > 0 {
			for k, e := range x {
				flatten(path+"."+k, e, into)
			}
			return
		}
	case []any:
		if len(x) > 0 {
			for i, e := range x {
				flatten(fmt.Sprintf("%s[%d]", path, i), e, into)
			}
			return
		}
	}
	raw, _ := json.Marshal(v)
	into[path] = string(raw)
}

// Cells returns the cells of a table's first row as text.
func (m *Mask) Cells(table *metav1.Table) string {
	if len(table.Rows) == 0 {
		return ""
	}
	var out []string
	for _, c := range table.Rows[0].Cells {
		if n, ok := c.(float64); ok && n == math.Trunc(n) { // of a table that was read from JSON
			c = int64(n)
		}
		text := fmt.Sprint(c)
		if age.MatchString(text) {
			text = "<age>"
		}
		text = ago.ReplaceAllString(text, "(<age> ago)")
		out = append(out, m.Text(text))
	}
	return strings.Join(out, " | ")
}
