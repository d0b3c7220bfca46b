package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// masks are the values that differ from run to run, as the recordings write them, and the form of
// what is allowed in their place.
var masks = map[string]string{
	"uid": `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`,
	"rv":  `\d+`,
	"time": `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)|\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d ` +
		`[+-]\d{4}`,
	"age":        `(\d+[smhdy])+|<unknown>|<invalid>`,
	"clusterIP":  `[0-9a-f.:]+`,
	"nodePort":   `\d{4,5}`,
	"random":     `[a-z0-9]+`,
	"continue":   `.+`,
	"jwt":        `[\w-]+\.[\w-]+\.[\w-]*`,
	"kid":        `[\w-]+`,
	"key":        `.+`,
	"unix time":  `\d+`,
	"hash":       `[\w-]+`,
	"etag":       `.+`,
	"ca bundle":  `.+`,
	"server":     `[^/ ]+`,
	"commit":     `\S+`,
	"go version": `go\S+`,
	"cid":        `[0-9a-f]{8,64}`,
	"pod-ip":     `\d+\.\d+\.\d+\.\d+`,
	"svc-ip":     `\d+\.\d+\.\d+\.\d+`,
	"node-ip":    `\d+\.\d+\.\d+\.\d+`,
	"r":          `[a-z0-9]+`,
	"digest":     `[0-9a-f]{64}`,
	"local-addr": `\S+`,
	"port":       `\d+`,
	"nanos":      `\d+`,
	"dns error":  `.+`,
	"newer":      `.+`, // what a newer version says beside what was recorded
	"dur":        `[\d.]+[mnµ]?s`,
	"t":          `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`,
}

// mask finds them; a number distinguishes several of a kind where the recordings care.
var mask = regexp.MustCompile(
	`<(uid|rv|time|age|clusterIP|nodePort|random|continue|jwt|kid|key|unix time|hash|etag|ca bundle|server|commit|go ` +
		`version|` +
		`cid|pod-ip|svc-ip|node-ip|r|digest|local-addr|port|nanos|dns error|newer|dur|t)\d*>`)

// internalText is what names the inside of a program and need not match (README of the recordings,
// "Replaying").
var internalText = []struct {
	find *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`(?s)\n@@ .*$`), ""},
	{regexp.MustCompile(`(?s)json: cannot unmarshal .*$`), "json: cannot unmarshal"},
	{regexp.MustCompile(`\*?\b(core|apps|batch|policy|autoscaling|rbac|networking|storage|v1|v1beta1|v2)\.([A-Z]\w+)`),
		"$2"},
	{regexp.MustCompile(`(?s)Invalid value: \{"labels":.*\}: field is immutable$`),
		"Invalid value: a template: field is immutable"},
	{regexp.MustCompile(`in scheme "[^"]+"`), "in scheme"},
}

func publicText(s string) string {
	for _, t := range internalText {
		s = t.find.ReplaceAllString(s, t.put)
	}
	return s
}

// Difference is one place where an answer is not what was recorded.
type Difference struct {
	Path      string
	Want, Got string
}

// String prints the place and both values on one line.
func (d Difference) String() string { return fmt.Sprintf("%s: want %s, got %s", d.Path, d.Want, d.Got) }

// Match compares a recorded text with an answer; masks match what is allowed in their place.
func Match(want, got string) bool { return matchString(want, got) }

// matchString compares a recorded text with an answer; masks match what is allowed in their place.
func matchString(want, got string) bool {
	if want == got {
		return true
	}
	want, got = publicText(want), publicText(got)
	if want == got {
		return true
	}
	at, pattern := 0, strings.Builder{}
	pattern.WriteString("(?s)^")
	for _, m := range mask.FindAllStringSubmatchIndex(want, -1) {
		name := want[m[2]:m[3]]
		pattern.WriteString(regexp.QuoteMeta(want[at:m[0]]) + "(?:" + masks[name] + "|<" + name + `\d*>)`)
		at = m[1]
	}
	if at == 0 {
		return false
	}
	pattern.WriteString(regexp.QuoteMeta(want[at:]) + "$")
	re, ok := compiled.Load(pattern.String())
	if !ok {
		c, err := regexp.Compile(pattern.String())
		if err != nil {
			return false
		}
		re, _ = compiled.LoadOrStore(pattern.String(), c)
	}
	return re.(*regexp.Regexp).MatchString(got)
}

// compiled keeps patterns: histories repeat their texts.
var compiled sync.Map

// wholeMask reports whether a recorded value is nothing but a mask and so matches a number too.
func wholeMask(want any) bool {
	s, ok := want.(string)
	return ok && s != "" && mask.FindString(s) == s
}

// Compare returns where got differs from want, both decoded JSON.
func Compare(path string, want, got any) []Difference {
	if n, ok := got.(float64); ok && wholeMask(want) {
		got = strconv.FormatFloat(n, 'f', -1, 64)
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
		if !ok {
			return differ(path, want, got)
		}
		return compareLists(path, w, g)
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

// compareLists compares in order; of lists of unequal length it names what is missing and what is
// too much.
func compareLists(path string, want, got []any) []Difference {
	var out []Difference
	if len(want) == len(got) {
		for i := range want {
			out = append(out, Compare(fmt.Sprintf("%s[%d]", path, i), want[i], got[i])...)
		}
		return out
	}
	left := append([]any(nil), got...)
	for _, w := range want {
		i := slices.IndexFunc(left, func(g any) bool { return len(Compare("", w, g)) == 0 })
		if i < 0 {
			out = append(out, Difference{path + "[]", abbreviate(w), "nothing"})
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	for _, g := range left {
		out = append(out, Difference{path + "[]", "nothing", abbreviate(g)})
	}
	return out
}

func compareMaps(path string, want, got map[string]any) []Difference {
	var out []Difference
	rest := maps.Clone(got)
	for _, k := range slices.Sorted(maps.Keys(want)) {
		key := k
		if _, ok := rest[key]; !ok && mask.MatchString(k) {
			for g := range rest {
				if matchString(k, g) {
					key = g
					break
				}
			}
		}
		g, ok := rest[key]
		if !ok {
			out = append(out, Difference{path + "." + k, abbreviate(want[k]), "nothing"})
			continue
		}
		delete(rest, key)
		out = append(out, Compare(path+"."+k, want[k], g)...)
	}
	for _, k := range slices.Sorted(maps.Keys(rest)) {
		out = append(out, Difference{path + "." + k, "nothing", abbreviate(rest[k])})
	}
	return out
}

func differ(path string, want, got any) []Difference {
	return []Difference{{path, abbreviate(want), abbreviate(got)}}
}

// abbreviate prints a value in at most some 300 characters.
func abbreviate(v any) string {
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
