package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// storageResults are the last results of the tests of storage, kept in a file, so that what failed
// can be run again by itself.
type storageResults struct {
	file     string
	Selected []string // names of the tests that the definition of the driver selects
	Tests    map[string]storageResult
}

// storageResult is the result of a test's last run.
type storageResult struct{ State, Reason, Commit string }

// read reads what is kept; nothing is kept before the first run.
func (r *storageResults) read() error {
	text, err := os.ReadFile(r.file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, r)
}

func (r *storageResults) write() error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(r.file, text, 0o644)
}

// add takes the results of a run in, in place of earlier ones of the same tests.
func (r *storageResults) add(commit string, specs []spec) {
	if r.Tests == nil {
		r.Tests = map[string]storageResult{}
	}
	for _, s := range specs {
		r.Tests[s.Name] = storageResult{s.State, s.Reason, commit}
	}
}

// specs are the results, by name.
func (r *storageResults) specs() []spec {
	var out []spec
	for name, t := range r.Tests {
		out = append(out, spec{Name: name, State: t.State, Reason: t.Reason})
	}
	slices.SortFunc(out, func(a, b spec) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// commits are those of the results.
func (r *storageResults) commits() []string {
	var out []string
	for _, t := range r.Tests {
		out = append(out, t.Commit)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// missing says how many selected tests have no result; empty when all have one.
func (r *storageResults) missing() string {
	n := 0
	for _, name := range r.Selected {
		if _, has := r.Tests[name]; !has {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("Of the %d tests that the definition selects %d were not run.\n\n", len(r.Selected), n)
}

// countResults counts results in words, and names with its reason what did not pass.
func countResults(specs []spec) string {
	counts, failed := map[string]int{}, ""
	for _, s := range specs {
		counts[s.State]++
		if s.State != "passed" && s.State != "skipped" {
			failed += fmt.Sprintf("\n        %s: %s\n          %.400s", s.State, s.Name,
				strings.ReplaceAll(strings.TrimSpace(s.Reason), "\n", "\n          "))
		}
	}
	return fmt.Sprintf("%d passed, %d skipped, %d failed%s", counts["passed"], counts["skipped"],
		len(specs)-counts["passed"]-counts["skipped"], failed)
}

// selected lists the tests that the definition of the driver selects, without running them.
func (s *suite) selected(ctx context.Context) ([]string, error) {
	const out = "selected.json"
	args := append([]string{"--dry-run", "--no-color", "--json-report=" + out, "--output-dir=" + s.logs,
		"--label-filter=!Disruptive", "--focus=" + externalSuite, "--skip=" + leftOut, s.tools.path("e2e.test"), "--",
		"--provider=skeleton", "--kubeconfig=" + s.cluster.kubeconfig()}, s.args...)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if _, err := output(ctx, "", s.tools.path("ginkgo"), args...); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(s.logs, out))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []report
	if err := json.NewDecoder(f).Decode(&all); err != nil {
		return nil, fmt.Errorf("ginkgo's report: %w", err)
	}
	var names []string
	for _, one := range all {
		for _, t := range one.SpecReports {
			if t.LeafNodeType == "It" && t.State == "passed" {
				names = append(names, strings.Join(append(t.ContainerHierarchyTexts, t.LeafNodeText), " "))
			}
		}
	}
	return names, nil
}
