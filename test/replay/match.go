package replay

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"sort"
	"strings"
)

// mask is a value that differs from run to run, as the recordings write it.
var mask = regexp.MustCompile(`<(uid|rv|time|age|clusterIP|nodePort|random|continue|jwt|kid|key|unix time|hash|etag|ca bundle|server|commit|go version)>`)

// Difference is one place where an answer is not what was recorded.
type Difference struct {
	Path      string
	Want, Got string
}

// String prints the place and both values on one line.
func (d Difference) String() string { return fmt.Sprintf("%s: want %s, got %s", d.Path, d.Want, d.Got) }

// matchString compares a recorded text, whose masks match anything.
func matchString(want, got string) bool {
	if !strings.Contains(want, "<") {
		return want == got
	}
	at, pattern := 0, strings.Builder{}
	pattern.WriteString("(?s)^")
	for _, m := range mask.FindAllStringIndex(want, -1) {
		pattern.WriteString(regexp.QuoteMeta(want[at:m[0]]) + ".+?")
		at = m[1]
	}
	pattern.WriteString(regexp.QuoteMeta(want[at:]) + "$")
	re, err := regexp.Compile(pattern.String())
	return err == nil && re.MatchString(got)
}

// wholeMask tells whether a recorded value is nothing but a mask and so matches a value of any type.
func wholeMask(want any) bool {
	s, ok := want.(string)
	return ok && mask.FindString(s) == s && s != ""
}

// Compare returns where got differs from want, both decoded JSON.
func Compare(path string, want, got any) []Difference {
	if wholeMask(want) && got != nil {
		return nil
	}
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return differ(path, want, got)
		}
		return compareMaps(path, w, g)
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return differ(path, want, got)
		}
		var out []Difference
		for i := range w {
			out = append(out, Compare(fmt.Sprintf("%s[%d]", path, i), w[i], g[i])...)
		}
		return out
	case string:
		if g, ok := got.(string); ok && matchString(w, g) {
			return nil
		}
		return differ(path, want, got)
	}
	if reflect.DeepEqual(want, got) {
		return nil
	}
	return differ(path, want, got)
}

func compareMaps(path string, want, got map[string]any) []Difference {
	keys := make([]string, 0, len(want)+len(got))
	for k := range want {
		keys = append(keys, k)
	}
	for k := range got {
		if _, both := want[k]; !both {
			keys = append(keys, k)
		}
	}
	sort.Strings(keys)
	var out []Difference
	for _, k := range keys {
		w, inWant := want[k]
		g, inGot := got[k]
		if inWant && inGot {
			out = append(out, Compare(path+"."+k, w, g)...)
			continue
		}
		if inWant {
			out = append(out, Difference{path + "." + k, brief(w), "nothing"})
		} else {
			out = append(out, Difference{path + "." + k, "nothing", brief(g)})
		}
	}
	return out
}

func differ(path string, want, got any) []Difference {
	return []Difference{{path, brief(want), brief(got)}}
}

// brief prints a value in at most some 300 characters.
func brief(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(raw) > 300 {
		return string(raw[:300]) + "…"
	}
	return string(raw)
}

// DropManagedFields removes metadata.managedFields everywhere.
func DropManagedFields(v any) {
	switch v := v.(type) {
	case map[string]any:
		if m, ok := v["metadata"].(map[string]any); ok {
			delete(m, "managedFields")
		}
		for _, x := range v {
			DropManagedFields(x)
		}
	case []any:
		for _, x := range v {
			DropManagedFields(x)
		}
	}
}
