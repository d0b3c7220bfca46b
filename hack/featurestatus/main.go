// Command featurestatus renders docs/compatibility/features.md: every row of
// test/features/rows.md, its state, its mutations, and the tests that name it.
//
// A test names a row in a comment before its function or at the case of a table: "// row: PRB-10"
// (several rows: "// row: PRB-10, PRB-11"). The state of a row is
//
//   - proven: a test that names it passed, and every mutation of the row (package test/mutants) was
//     killed while the files it depends on were what they are now;
//   - tested: a test that names it passed;
//   - broken: a test that names it failed;
//   - not yet: no test that names it passed.
//
// -results is the output of `go test -json`; without it nothing counts.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
)

var (
	rowLine  = regexp.MustCompile(`^\| ([A-Z]+-\d+) \| (.*?) \| [^|]* \| [^|]* \|$`)
	areaLine = regexp.MustCompile(`^# (\d+ .*)$`)
)

type row struct{ id, text, area string }

func main() {
	results := flag.String("results", "build/test.json", "output of go test -json")
	out := flag.String("o", "docs/compatibility/features.md", "file to write")
	check := flag.Bool("check", false, "only check that every mark names a row and stands in a test")
	flag.Parse()
	if err := run(*results, *out, *check); err != nil {
		fmt.Fprintln(os.Stderr, "featurestatus:", err)
		os.Exit(1)
	}
}

func run(results, out string, check bool) error {
	rows, err := readRows("test/features/rows.md")
	if err != nil {
		return err
	}
	marks, err := readMarks(".")
	if err != nil {
		return err
	}
	if err := known(rows, marks); err != nil || check {
		return err
	}
	ran, err := readResults(results)
	if err != nil {
		return err
	}
	broken, err := mutationsByRow(".")
	if err != nil {
		return err
	}
	var all []status
	for _, r := range rows {
		all = append(all, statusOf(r, marks[r.id], ran, broken[r.id]))
	}
	return os.WriteFile(out, render(all), 0o644)
}

func readRows(path string) ([]row, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows []row
	area := ""
	for _, line := range strings.Split(string(raw), "\n") {
		if strings.HasPrefix(line, "# ") {
			area = "" // the chapters after the areas have tables of their own
		}
		if m := areaLine.FindStringSubmatch(line); m != nil {
			area = m[1]
		}
		if m := rowLine.FindStringSubmatch(line); m != nil && area != "" {
			rows = append(rows, row{m[1], m[2], area})
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s has no rows", path)
	}
	return rows, nil
}

// known refuses marks of rows that are not there.
func known(rows []row, marks map[string][]mark) error {
	have := map[string]bool{}
	for _, r := range rows {
		have[r.id] = true
	}
	var wrong []error
	for id, ms := range marks {
		if !have[id] {
			wrong = append(wrong,
				fmt.Errorf("%s.%s names row %s, which test/features/rows.md does not have: correct the mark",
					ms[0].pkg, ms[0].test, id))
		}
	}
	return errors.Join(wrong...)
}
