package mutants

import (
	"crypto/sha256"
	"path"
	"slices"
	"sort"
	"strings"
)

// Choice selects mutations; an empty list of one kind selects all.
type Choice struct {
	Rows  []string // patterns of path.Match over row IDs: "BND-06", "API-1*"
	Areas []string // prefixes of row IDs: "BND"
	Files []string // changed files: a mutation whose own or whose tests' directory has one is chosen
	Tests []string // directories: a mutation whose tests are in these only is chosen
	// Containers chooses the mutations with real containers, instead of all others.
	Containers bool
}

// Choose returns the mutations of all that c selects, without those that only say why there is
// none.
func Choose(all []Mutation, c Choice) []Mutation {
	dirs := map[string]bool{}
	for _, f := range c.Files {
		d := path.Dir(f)
		if at := strings.Index(d+"/", "/testdata/"); at >= 0 {
			d = d[:at]
		}
		dirs[d] = true
	}
	var out []Mutation
	for _, m := range all {
		if m.None == "" && m.Containers == c.Containers && c.row(m.Row) && c.inTests(m) &&
			(c.Files == nil || m.touches(dirs)) {
			out = append(out, m)
		}
	}
	return out
}

func (c Choice) row(id string) bool {
	if len(c.Rows) == 0 && len(c.Areas) == 0 {
		return true
	}
	for _, p := range c.Rows {
		if ok, _ := path.Match(p, id); ok {
			return true
		}
	}
	for _, a := range c.Areas {
		if strings.HasPrefix(id, a+"-") {
			return true
		}
	}
	return false
}

func (c Choice) inTests(m Mutation) bool {
	return len(c.Tests) == 0 || !slices.ContainsFunc(packages(m), func(p string) bool {
		return !slices.Contains(c.Tests, p)
	})
}

func (m Mutation) touches(dirs map[string]bool) bool {
	for _, e := range m.Edits() {
		if dirs[path.Dir(e.File)] {
			return true
		}
	}
	for _, t := range m.Tests {
		if dirs[t.In] {
			return true
		}
	}
	return false
}

// Sample returns n of the mutations that need no containers, always the same ones while all is the
// same, spread by the hash of their IDs.
func Sample(all []Mutation, n int) []Mutation {
	plain := Choose(all, Choice{})
	sort.SliceStable(plain, func(i, j int) bool { return hashed(plain[i].ID()) < hashed(plain[j].ID()) })
	return plain[:min(n, len(plain))]
}

func hashed(s string) string {
	sum := sha256.Sum256([]byte(s))
	return string(sum[:])
}

// Stale returns those of all that have no result of the present tree in results: never run, or run
// when what they depend on was another. With failed, those that were not killed count too.
func Stale(root string, all []Mutation, results map[string]Result, failed bool) ([]Mutation, error) {
	var out []Mutation
	for _, m := range all {
		print, err := Fingerprint(root, m)
		if err != nil {
			return nil, err
		}
		r, ok := results[m.ID()]
		if !ok || r.Fingerprint != print || failed && r.Outcome != Killed {
			out = append(out, m)
		}
	}
	return out, nil
}
