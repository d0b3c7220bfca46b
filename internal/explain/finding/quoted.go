package finding

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// leaf is a value of an object with its path.
type leaf struct{ path, value string }

// leaves are the scalars below a value, in the order of their paths.
func leaves(at string, v any) []leaf {
	switch x := v.(type) {
	case map[string]any:
		var out []leaf
		for _, k := range slices.Sorted(maps.Keys(x)) {
			path := at + "." + k
			if strings.ContainsAny(k, "./") {
				path = at + "[" + k + "]"
			}
			out = append(out, leaves(path, x[k])...)
		}
		return out
	case []any:
		var out []leaf
		for i, item := range x {
			out = append(out, leaves(fmt.Sprintf("%s[%d]", at, i), item)...)
		}
		return out
	case nil:
		return nil
	}
	return []leaf{{at, fmt.Sprint(v)}}
}

// treeOf are the scalars of a value of the API.
func treeOf(at string, value any) []leaf {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	var tree any
	if json.Unmarshal(raw, &tree) != nil {
		return nil
	}
	return leaves(at, tree)
}

// leavesOf are the scalars of an object, without those of its metadata.
func leavesOf(o any) []leaf {
	out := treeOf("", o)
	for i := range out {
		out[i].path = strings.TrimPrefix(out[i].path, ".")
	}
	return slices.DeleteFunc(out, func(l leaf) bool { return strings.HasPrefix(l.path, "metadata") })
}

// leastQuoted is the length from which a value in a text is taken for a quotation.
const leastQuoted = 3

// plainWords are values that stand in texts without being quoted.
var plainWords = []string{"true", "false", "File", "Always", "Never", "TCP", "UDP", "Linux", "linux", "default",
	"container", "ClusterFirst", "IfNotPresent", "OnFailure", "default-scheduler", "node", "pod", "volume", "image"}

// weights order fields by how much they say: a path or a reference tells more than a name that
// only labels an item.
func weight(path string) int {
	last := path[strings.LastIndex(path, ".")+1:]
	switch {
	case strings.Contains(path, "metadata") || strings.Contains(path, "terminationMessage"):
		return -1
	case strings.HasSuffix(path, ".image"), strings.HasSuffix(path, ".nodeName"):
		return 0
	case last == "name" && !strings.Contains(path, "Ref") && !strings.Contains(path, "configMap.") &&
		!strings.Contains(path, "sysctls"):
		return 1
	}
	return 2
}

// Quoted returns the field of a value, whose path is at, that a text quotes: the longest content
// that stands in the text as a word of its own. ok is false when it quotes none.
func Quoted(value any, at, text string) (field, content string, ok bool) {
	best := -1
	for _, l := range treeOf(at, value) {
		if len(l.value) < leastQuoted || slices.Contains(plainWords, l.value) || !word(text, l.value) {
			continue
		}
		if score := weight(l.path)*1000 + min(len(l.value), 999); weight(l.path) >= 0 && score > best {
			best, field, content, ok = score, l.path, l.value, true
		}
	}
	return field, content, ok
}

// word reports whether a text has a value that no letter, digit or dash continues.
func word(text, value string) bool {
	part := func(b byte) bool {
		return b == '-' || b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
	}
	for from := 0; ; {
		i := strings.Index(text[from:], value)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(value)
		if (i == 0 || !part(text[i-1])) && (end == len(text) || !part(text[end])) {
			return true
		}
		from = i + 1
	}
}

// number matches an amount, a duration or a share that stands alone in a sentence.
var number = regexp.MustCompile(`^\d+(\.\d+)?(Ki|Mi|Gi|Ti|Ei|k|m|M|G|T|%|s|ms|h|min)?$|^(\d+h)?(\d+m)?(\d+(\.\d+)?s)$`)

// withNumbers adds the numbers of a finding's sentence that its data lack, by the word before each.
func (f *Finding) withNumbers() {
	before := "number"
	for _, w := range strings.Fields(f.Message) {
		w = strings.Trim(w, `.,;:()[]"'`)
		if !number.MatchString(w) {
			if w != "" && w != "is" && w != "of" && w != "the" && w != "are" && w != "and" {
				before = w
			}
			continue
		}
		if f.hasNumber(w) {
			continue
		}
		if f.Numbers == nil {
			f.Numbers = map[string]string{}
		}
		key := before
		for i := 2; f.Numbers[key] != ""; i++ {
			key = fmt.Sprintf("%s.%d", before, i)
		}
		f.Numbers[key] = w
	}
}

func (f *Finding) hasNumber(n string) bool {
	for _, v := range f.Numbers {
		if v == n {
			return true
		}
	}
	return false
}
