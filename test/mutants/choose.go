package mutants

import (
	"crypto/sha256"
	"maps"
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

// mostOfGroup is how many areas of a sample are those of one group at most.
const mostOfGroup = 4

// Sample returns n of the mutations that need no containers, always the same ones while all is the
// same. The first are one of every area, from as few groups that share a test binary as that takes;
// then come the others of these groups, then all others. Hashes of IDs decide where nothing else
// does.
func Sample(all []Mutation, n int) []Mutation {
	plain := Choose(all, Choice{})
	sort.SliceStable(plain, func(i, j int) bool { return hashed(plain[i].ID()) < hashed(plain[j].ID()) })
	byGroup, areas := map[string][]Mutation{}, map[string]bool{}
	for _, m := range plain {
		byGroup[m.group()] = append(byGroup[m.group()], m)
		areas[m.area()] = true
	}
	keys := slices.SortedFunc(maps.Keys(byGroup), func(a, b string) int {
		return strings.Compare(hashed(a), hashed(b))
	})
	var out, further []Mutation
	covered, chosen := map[string]bool{}, map[string]bool{}
	for len(covered) < len(areas) {
		var best []Mutation
		for _, k := range keys {
			if more := newAreas(byGroup[k], covered); len(more) > len(best) {
				best = more
			}
		}
		for _, m := range best {
			covered[m.area()] = true
			chosen[m.group()] = true
		}
		out = append(out, best...)
	}
	for _, inChosen := range []bool{true, false} {
		for _, m := range plain {
			if chosen[m.group()] == inChosen && !slices.ContainsFunc(out, func(o Mutation) bool {
				return o.ID() == m.ID()
			}) {
				further = append(further, m)
			}
		}
	}
	out = append(out, further...)
	return out[:min(n, len(out))]
}

// newAreas are the first mutations of a group, one of each area that is not covered.
func newAreas(group []Mutation, covered map[string]bool) (out []Mutation) {
	in := map[string]bool{}
	for _, m := range group {
		if a := m.area(); !covered[a] && !in[a] && len(out) < mostOfGroup {
			in[a], out = true, append(out, m)
		}
	}
	return out
}

// area is the prefix of the row's ID.
func (m Mutation) area() string {
	a, _, _ := strings.Cut(m.Row, "-")
	return a
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
