package main

import (
	"regexp"
	"sort"
	"strings"

	"github.com/gantry-project/gantry/test/replay"
)

// cause explains differences. The first row whose match finds a difference, printed as "area/case
// path: want …, got …", explains it; covers then explains further differences of the same case that
// follow from it.
type cause struct {
	match, covers *regexp.Regexp
	what          string // the difference
	why           string // why it is intended; empty if it is not done yet
	where         string // the component to change
}

func row(match, what, why, where string) cause {
	return cause{match: regexp.MustCompile(match), what: what, why: why, where: where}
}

// with makes a row that also covers what follows from its difference.
func with(covers string, c cause) cause {
	c.covers = regexp.MustCompile(covers)
	return c
}

// found is a cause with the cases it explains.
type found struct {
	cause
	cases []string
}

// explain groups the differences of all unequal cases by cause; unexplained ones by where they are.
// alone counts the cases that intended causes explain completely.
func explain(unequal []replay.Unequal) (list []found, alone int) {
	byWhat := map[string]*found{}
	note := func(c cause, name string) {
		f := byWhat[c.what]
		if f == nil {
			f = &found{cause: c}
			byWhat[c.what] = f
		}
		if n := len(f.cases); n == 0 || f.cases[n-1] != name {
			f.cases = append(f.cases, name)
		}
	}
	for _, u := range unequal {
		meant := true
		for _, c := range causesOf(u) {
			note(c, u.Name)
			meant = meant && c.why != ""
		}
		if meant {
			alone++
		}
	}
	for _, f := range byWhat {
		list = append(list, *f)
	}
	sort.Slice(list, func(i, j int) bool {
		if len(list[i].cases) != len(list[j].cases) {
			return len(list[i].cases) > len(list[j].cases)
		}
		return list[i].what < list[j].what
	})
	return list, alone
}

// causesOf returns the causes of one unequal case without duplicates.
func causesOf(u replay.Unequal) []cause {
	var lines []string
	if u.Err != nil {
		lines = append(lines, u.Name+" not replayed: "+u.Err.Error())
	}
	for _, d := range u.Differences {
		lines = append(lines, u.Name+" "+d.String())
	}
	var out []cause
	add := func(c cause) {
		for _, have := range out {
			if have.what == c.what {
				return
			}
		}
		out = append(out, c)
	}
	var rest []string
	for _, l := range lines {
		if c := findCause(l); c != nil {
			add(*c)
		} else {
			rest = append(rest, l)
		}
	}
	for _, l := range rest {
		covered := false
		for _, c := range out {
			covered = covered || c.covers != nil && c.covers.MatchString(l)
		}
		if !covered {
			add(unexplained(u.Name, l))
		}
	}
	return out
}

func findCause(line string) *cause {
	for i := range causes {
		if causes[i].match.MatchString(line) {
			return &causes[i]
		}
	}
	return nil
}

// unexplained returns a cause for a difference without a row: the family, and the kind of
// difference.
func unexplained(name, line string) cause {
	family := name[:strings.LastIndex(name, "/")]
	switch {
	case strings.Contains(line, "code: want 422, got 2"), strings.Contains(line, "code: want 403, got 2"):
		return cause{what: family + ": accepted where upstream refuses"}
	case strings.Contains(line, "code: want 2"):
		return cause{what: family + ": refused where upstream accepts"}
	case strings.Contains(line, "got 404"), strings.Contains(line, "not replayed"):
		return cause{what: family + ": not served"}
	}
	return cause{what: family + ": other answers"}
}
