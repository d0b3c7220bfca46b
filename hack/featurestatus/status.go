package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gantry-project/gantry/test/mutants"
)

const module = "github.com/gantry-project/gantry/"

// ran has the outcome ("pass", "fail", "skip") of every test that ended, by package directory and
// name; subtests have names with slashes.
type ran map[string]map[string]string

func readResults(path string) (ran, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not there, and without results no row counts: run `make test` first", path)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := ran{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e struct{ Action, Package, Test string }
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Test == "" {
			continue
		}
		if e.Action != "pass" && e.Action != "fail" && e.Action != "skip" {
			continue
		}
		pkg := strings.TrimPrefix(e.Package, module)
		if out[pkg] == nil {
			out[pkg] = map[string]string{}
		}
		out[pkg][e.Test] = e.Action
	}
	return out, lines.Err()
}

// outcome is what became of the test, or of the subtest at which the mark stands, where the results
// have one of its name. A skipped subtest takes the marks of its table away, also where the mark's
// case has no name in the results.
func (r ran) outcome(m mark) string {
	tests := r[m.pkg]
	whole := tests[m.test]
	if m.sub == "" || whole != "pass" {
		return whole
	}
	name, found := "/"+strings.ReplaceAll(m.sub, " ", "_"), ""
	for test, action := range tests {
		if strings.HasPrefix(test, m.test+"/") && strings.Contains(test+"/", name+"/") &&
			(found == "" || action != "pass") {
			found = action
		}
	}
	if found == "" {
		return whole
	}
	return found
}

// mutation is one mutation of a row: fresh when it was killed in this very code.
type mutation struct {
	none  string
	fresh bool
}

func mutationsByRow(root string) (map[string][]mutation, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	all, err := mutants.Read(filepath.Join(root, "test/mutants/rows"))
	if err != nil {
		return nil, err
	}
	results, err := mutants.ReadResults(filepath.Join(root, "test/mutants/results.jsonl"))
	if err != nil {
		return nil, err
	}
	out := map[string][]mutation{}
	for _, m := range all {
		one := mutation{none: m.None}
		if m.None == "" {
			print, err := mutants.Fingerprint(root, m)
			if err != nil {
				return nil, err
			}
			r := results[m.ID()]
			one.fresh = r.Outcome == mutants.Killed && r.Fingerprint == print
		}
		out[m.Row] = append(out[m.Row], one)
	}
	return out, nil
}

const (
	proven = "proven"
	tested = "tested"
	broken = "broken"
	notYet = "not yet"
)

// status is a row with its state, the tests that passed (or, when it is broken, failed), and how
// many of its mutations were killed.
type status struct {
	row
	state          string
	tests          []string
	killed, mutant int
}

func statusOf(r row, marks []mark, results ran, mutations []mutation) status {
	s := status{row: r, state: notYet}
	var passed, failed []string
	for _, m := range marks {
		name := m.pkg + "." + m.test
		switch results.outcome(m) {
		case "pass":
			passed = appendNew(passed, name)
		case "fail":
			failed = appendNew(failed, name)
		}
	}
	for _, m := range mutations {
		if m.none == "" {
			s.mutant++
		}
		if m.fresh {
			s.killed++
		}
	}
	switch {
	case len(failed) > 0:
		s.state, s.tests = broken, failed
	case len(passed) > 0 && s.mutant > 0 && s.killed == s.mutant:
		s.state, s.tests = proven, passed
	case len(passed) > 0:
		s.state, s.tests = tested, passed
	}
	return s
}

func appendNew(list []string, s string) []string {
	for _, have := range list {
		if have == s {
			return list
		}
	}
	return append(list, s)
}
