package journal

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Change is one field that a step of a write changed. Was is nil for an added field, Now for a
// removed one.
type Change struct {
	Path string `json:"path"` // such as spec.containers[web].image
	Was  any    `json:"was,omitempty"`
	Now  any    `json:"now,omitempty"`
}

// Line returns the change as one line for people.
func (c Change) Line() string {
	switch {
	case c.Was == nil:
		return "+ " + c.Path + ": " + abbreviate(c.Now)
	case c.Now == nil:
		return "- " + c.Path + ": " + abbreviate(c.Was)
	}
	return "~ " + c.Path + ": " + abbreviate(c.Was) + " → " + abbreviate(c.Now)
}

// maxValueLength bounds the characters of a value that a line shows.
const maxValueLength = 120

func abbreviate(v any) string {
	var s string
	switch v := v.(type) {
	case string:
		s = fmt.Sprintf("%q", v)
	case map[string]any:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, k+": "+abbreviate(v[k]))
		}
		s = "{" + strings.Join(parts, ", ") + "}"
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, abbreviate(e))
		}
		s = "[" + strings.Join(parts, ", ") + "]"
	default:
		s = fmt.Sprint(v)
	}
	if r := []rune(s); len(r) > maxValueLength {
		return string(r[:maxValueLength]) + "…"
	}
	return s
}

// Changes compares two objects decoded from JSON and returns the differences by path. Empty and
// absent are equal; apiVersion, kind, resourceVersion and managedFields are ignored. List elements
// are matched by name, type, key, ip or the like if all have a distinct one, else by index.
func Changes(was, now map[string]any) []Change {
	d := differ{}
	d.maps("", was, now)
	return d.out
}

type differ struct{ out []Change }

func (d *differ) maps(path string, was, now map[string]any) {
	keys := map[string]bool{}
	for k := range was {
		keys[k] = true
	}
	for k := range now {
		keys[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if path == "" && (k == "apiVersion" || k == "kind") ||
			path == "metadata" && (k == "managedFields" || k == "resourceVersion") {
			continue
		}
		d.value(join(path, k), was[k], now[k])
	}
}

func join(path, key string) string {
	switch {
	case strings.ContainsAny(key, "./"):
		return fmt.Sprintf("%s[%s]", path, key)
	case path == "":
		return key
	}
	return path + "." + key
}

func (d *differ) value(path string, was, now any) {
	if empty(was) && empty(now) || reflect.DeepEqual(was, now) {
		return
	}
	wasMap, isWas := was.(map[string]any)
	nowMap, isNow := now.(map[string]any)
	if (isWas || was == nil) && (isNow || now == nil) && (was == nil || now == nil || isWas && isNow) && descends(path,
		was, now) {
		d.maps(path, wasMap, nowMap)
		return
	}
	wasList, isWas := was.([]any)
	nowList, isNow := now.([]any)
	if isWas && isNow {
		d.lists(path, wasList, nowList)
		return
	}
	d.out = append(d.out, Change{Path: path, Was: orNil(was), Now: orNil(now)})
}

// descends reports whether two maps are compared field by field. A map that was added or removed is
// one change, except for large parts of an object.
func descends(path string, was, now any) bool {
	return was != nil && now != nil || path == "metadata" || path == "spec" || path == "status"
}

func orNil(v any) any {
	if empty(v) {
		return nil
	}
	return v
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

func (d *differ) lists(path string, was, now []any) {
	key := keyOf(was, now)
	if key == "" {
		for i := range max(len(was), len(now)) {
			d.value(fmt.Sprintf("%s[%d]", path, i), elementAt(was, i), elementAt(now, i))
		}
		return
	}
	before, after := byKey(was, key), byKey(now, key)
	for _, e := range was {
		k := label(e, key)
		d.value(path+"["+k+"]", e, after[k])
	}
	for _, e := range now {
		if k := label(e, key); before[k] == nil {
			d.value(path+"["+k+"]", nil, e)
		}
	}
}

func elementAt(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// keyOf returns the field by which the elements of all lists can be matched.
func keyOf(lists ...[]any) string {
next:
	for _, key := range []string{"mountPath", "name", "type", "uid", "key", "containerPort", "port", "ip",
		"topologyKey"} {
		for _, list := range lists {
			seen := map[string]bool{}
			for _, e := range list {
				k := label(e, key)
				if k == "" || seen[k] {
					continue next
				}
				seen[k] = true
			}
		}
		return key
	}
	return ""
}

func label(e any, key string) string {
	if m, ok := e.(map[string]any); ok && m[key] != nil {
		return fmt.Sprint(m[key])
	}
	return ""
}

func byKey(list []any, key string) map[string]any {
	out := make(map[string]any, len(list))
	for _, e := range list {
		out[label(e, key)] = e
	}
	return out
}
