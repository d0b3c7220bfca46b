package main

import (
	"crypto/sha256"
	"fmt"
	"sort"
	"strings"
)

// mutation is one small change of one place. Its key does not name the line, so that it stays the
// same while code around it changes.
type mutation struct {
	Package string `json:"package"`
	File    string `json:"file"`
	Line    int    `json:"line"`
	Func    string `json:"func"`
	Kind    string `json:"kind"`
	Text    string `json:"text"`
	// Nth counts mutations of one function that are alike otherwise, from 1.
	Nth int `json:"nth"`

	id       int // within the package, from 1
	from, to int // the bytes of the file that build replaces
	build    func(condition string, text renderer) string
}

// renderer is the text of a part of the file with the mutations inside it.
type renderer func(from, to int) string

func (m *mutation) key() string {
	return fmt.Sprintf("%s %s %s %s %q %d", m.Package, m.File, m.Func, m.Kind, m.Text, m.Nth)
}

func (m *mutation) String() string {
	nth := ""
	if m.Nth > 1 {
		nth = fmt.Sprintf(" (%d)", m.Nth)
	}
	return fmt.Sprintf("%s:%d %s: %s: %s%s", m.File, m.Line, m.Func, m.Kind, m.Text, nth)
}

// number gives every mutation its Nth.
func number(all []*mutation) {
	seen := map[string]int{}
	for _, m := range all {
		m.Nth = 0
		k := m.key()
		seen[k]++
		m.Nth = seen[k]
	}
}

// sample draws n of all. A mutation is drawn by its key and the seed alone: another one that comes
// or goes moves at most one of the drawn ones out. The result is in the order of the source.
func sample(all []*mutation, seed int64, n int) []*mutation {
	rank := map[*mutation]string{}
	for _, m := range all {
		rank[m] = fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%d %s", seed, m.key())))
	}
	out := append([]*mutation{}, all...)
	sort.Slice(out, func(i, j int) bool { return rank[out[i]] < rank[out[j]] })
	out = out[:min(n, len(out))]
	sort.SliceStable(out, func(i, j int) bool {
		if out[i].File != out[j].File {
			return out[i].File < out[j].File
		}
		return out[i].from < out[j].from
	})
	return out
}

// short is a piece of source on one line.
func short(text string) string {
	const most = 100
	s := strings.Join(strings.Fields(text), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
