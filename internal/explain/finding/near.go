package finding

import (
	"fmt"
	"slices"
	"strings"
)

// Near returns the name of have that was probably meant by want and what differs; empty when none
// is similar. First comes one that differs in letter case or separators alone, then one by edit
// distance, at most a third of its length, then one of which the other is the beginning. Parts of
// names with dots and slashes that both have say nothing: a.example.com is not near b.example.com.
func Near(want string, have []string) (name, differs string) {
	have = slices.Sorted(slices.Values(have))
	for _, h := range have {
		if h != want && strings.EqualFold(h, want) {
			return h, "it differs in letter case"
		}
	}
	for _, h := range have {
		if h != want && plain(h) == plain(want) {
			return h, "it differs in separators"
		}
	}
	least := max(1, len(want)/3) + 1
	for _, h := range have {
		if h == want {
			continue
		}
		x, y := ownParts(want, h)
		if d := distance(x, y); d < least && d <= max(1, len(x)/3) {
			name, least = h, d
		}
	}
	switch {
	case name != "" && least == 1:
		return name, "it differs by one letter"
	case name != "":
		return name, fmt.Sprintf("it differs by %d letters", least)
	}
	for _, h := range have {
		if h != want && len(min(h, want)) > 0 && (strings.HasPrefix(h, want+"-") || strings.HasPrefix(want, h+"-")) {
			return h, "one begins with the other"
		}
	}
	return "", ""
}

// ownParts are two names without the parts between dots and slashes that they have in common at the
// beginning and at the end.
func ownParts(a, b string) (string, string) {
	i := commonParts(a, b)
	a, b = a[i:], b[i:]
	j := commonParts(reversed(a), reversed(b))
	return a[:len(a)-j], b[:len(b)-j]
}

// commonParts is the length of the parts that two names begin with, with the separators after them.
func commonParts(a, b string) int {
	end := 0
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			break
		}
		if a[i] == '.' || a[i] == '/' {
			end = i + 1
		}
	}
	return end
}

func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// plain is a name without case and separators.
func plain(s string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "").Replace(s))
}

// distance is the number of letters to insert, remove, replace or exchange with their neighbour.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}

// joined joins words as in a sentence: "a, b and c"; beyond eight the rest is counted.
func joined(words []string) string {
	if len(words) > 8 {
		words = append(slices.Clone(words[:8]), fmt.Sprintf("%d more", len(words)-8))
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
