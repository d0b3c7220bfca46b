package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// about is what a result is about.
type about struct {
	Commit, Version string // Gantry's commit, and the version of Kubernetes that the suite is of
	Date            time.Time
	Certified       int // how many tests that version certifies
}

var sigName = regexp.MustCompile(`\[sig-([a-z-]+)\]`)

// results counts tests of one special interest group.
type results struct{ passed, failed int }

// page renders the result of a whole run as docs/compatibility/conformance.md.
func page(a about, specs []spec) string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"# Kubernetes' conformance tests\n\nGantry at commit %s, on %s, against the %d tests that Kubernetes %s\n",
		a.Commit,
		a.Date.UTC().Format("2006-01-02"), a.Certified, a.Version)
	b.WriteString("certifies with. `make conformance` runs them: upstream's suite, built of its module, against\n")
	b.WriteString("`gantry up` and a second node that joined it, each in a network namespace of one machine, " +
		"and\nwrites this page.\n\n")
	b.WriteString(table(specs))
	return b.String()
}

// table is the count of each group and the names of what did not pass.
func table(specs []spec) string {
	groups, all := map[string]*results{}, results{}
	var failed []string
	for _, s := range specs {
		name := "none"
		if m := sigName.FindStringSubmatch(s.Name); m != nil {
			name = m[1]
		}
		if groups[name] == nil {
			groups[name] = &results{}
		}
		if s.State == "passed" {
			groups[name].passed++
			all.passed++
			continue
		}
		groups[name].failed++
		all.failed++
		failed = append(failed, s.Name+" ("+s.State+")")
	}
	var b strings.Builder
	b.WriteString("| SIG | passed | failed | total |\n|---|---:|---:|---:|\n")
	row := func(name string, t results) {
		fmt.Fprintf(&b, "| %s | %d | %d | %d |\n", name, t.passed, t.failed, t.passed+t.failed)
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		row(name, *groups[name])
	}
	row("all", all)
	if len(failed) == 0 {
		return b.String()
	}
	slices.Sort(failed)
	b.WriteString("\nNot passed:\n\n")
	for _, name := range failed {
		b.WriteString("- " + name + "\n")
	}
	return b.String()
}
