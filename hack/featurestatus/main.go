// Command featurestatus renders docs/compatibility/features.md: every row of test/features/rows.md,
// whether a test proves it, and which.
//
// A test proves a row by naming it in a comment before the test function or the table case: "//
// row: PRB-10" (several rows: "// row: PRB-10, PRB-11"). With -results FILE, the output of `go test
// -json`, a row counts as proven only when its test passed in that run.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

var (
	rowLine  = regexp.MustCompile(`^\| ([A-Z]+-\d+) \| (.*?) \| [^|]* \| [^|]* \|$`)
	areaLine = regexp.MustCompile(`^# (\d+ .*)$`)
	mark     = regexp.MustCompile(`// rows?: ([A-Z]+-\d+(?:[, ]+[A-Z]+-\d+)*)`)
	testFunc = regexp.MustCompile(`^func (Test\w+|Fuzz\w+)\(`)
	rowID    = regexp.MustCompile(`[A-Z]+-\d+`)
)

type row struct{ id, text, area string }

type proof struct{ pkg, test string }

func main() {
	results := flag.String("results", "", "output of go test -json; without it every named test counts")
	out := flag.String("o", "docs/compatibility/features.md", "file to write")
	flag.Parse()
	if err := run(*results, *out); err != nil {
		fmt.Fprintln(os.Stderr, "ledger:", err)
		os.Exit(1)
	}
}

func run(results, out string) error {
	rows, err := readRows("test/features/rows.md")
	if err != nil {
		return err
	}
	proofs, err := readMarks(".")
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, r := range rows {
		known[r.id] = true
	}
	var wrong []error
	for id, ps := range proofs {
		if !known[id] {
			wrong = append(wrong,
				fmt.Errorf("%s.%s names row %s, which test/features/rows.md does not have: correct the mark", ps[0].pkg,
					ps[0].test, id))
		}
	}
	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}
	passed, err := readResults(results)
	if err != nil {
		return err
	}
	return os.WriteFile(out, render(rows, proofs, passed), 0o644)
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
			area = "" // the sections after the areas have tables of their own
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

// readMarks finds the rows that test files name. A mark belongs to the next test function, or to
// the one that contains it.
func readMarks(top string) (map[string][]proof, error) {
	proofs := map[string][]proof{}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != top || d.Name() == "build") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "test/") {
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		return fileMarks(path, proofs)
	})
	return proofs, err
}

func fileMarks(path string, proofs map[string][]proof) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var waiting []string
	current := ""
	pkg := filepath.ToSlash(filepath.Dir(path))
	add := func(id, test string) {
		p := proof{pkg, test}
		for _, have := range proofs[id] {
			if have == p {
				return
			}
		}
		proofs[id] = append(proofs[id], p)
	}
	for _, line := range strings.Split(string(raw), "\n") {
		if strings.HasPrefix(line, "}") {
			current = ""
		}
		if m := testFunc.FindStringSubmatch(line); m != nil {
			current = m[1]
			for _, id := range waiting {
				add(id, current)
			}
			waiting = nil
		}
		if m := mark.FindStringSubmatch(line); m != nil {
			for _, id := range rowID.FindAllString(m[1], -1) {
				if current != "" {
					add(id, current)
				} else {
					waiting = append(waiting, id)
				}
			}
		}
	}
	for _, id := range waiting {
		add(id, "")
	}
	return nil
}

// readResults returns which tests passed, by package and name; nil without a file.
func readResults(path string) (map[proof]bool, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is not there: run `make test` first", path)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	passed := map[proof]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e struct{ Action, Package, Test string }
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Action != "pass" {
			continue
		}
		_, pkg, _ := strings.Cut(e.Package, "github.com/gantry-project/gantry/")
		passed[proof{pkg, e.Test}] = true
		passed[proof{pkg, ""}] = true
	}
	return passed, lines.Err()
}

func render(rows []row, proofs map[string][]proof, passed map[proof]bool) []byte {
	var body bytes.Buffer
	type count struct{ proven, all int }
	counts := map[string]*count{}
	var areas []string
	for _, r := range rows {
		if counts[r.area] == nil {
			counts[r.area] = &count{}
			areas = append(areas, r.area)
			fmt.Fprintf(&body, "\n## %s\n\n| Row | Behaviour | State | Test |\n| --- | --- | --- | --- |\n", r.area)
		}
		counts[r.area].all++
		state, tests := "not yet", ""
		if ps := good(proofs[r.id], passed); len(ps) > 0 {
			state, tests = "proven", list(ps)
			counts[r.area].proven++
		}
		fmt.Fprintf(&body, "| %s | %s | %s | %s |\n", r.id, r.text, state, tests)
	}
	var b bytes.Buffer
	b.WriteString("# Features\n\nRendered by `make ledger` from the tests that name a row and from the last run of " +
		"`make test`. A row is proven when such a test passed.\n\n")
	b.WriteString("| Area | Proven | Rows |\n| --- | --- | --- |\n")
	total := count{}
	for _, a := range areas {
		fmt.Fprintf(&b, "| %s | %d | %d |\n", a, counts[a].proven, counts[a].all)
		total.proven += counts[a].proven
		total.all += counts[a].all
	}
	fmt.Fprintf(&b, "| **all** | **%d** | **%d** |\n", total.proven, total.all)
	b.Write(body.Bytes())
	return b.Bytes()
}

func good(ps []proof, passed map[proof]bool) []proof {
	var out []proof
	for _, p := range ps {
		if passed == nil || passed[p] {
			out = append(out, p)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].pkg+out[i].test < out[j].pkg+out[j].test })
	return out
}

// list returns the names of at most three tests.
func list(ps []proof) string {
	var names []string
	for i, p := range ps {
		if i == 3 {
			names = append(names, fmt.Sprintf("and %d more", len(ps)-3))
			break
		}
		name := p.pkg
		if p.test != "" {
			name += "." + p.test
		}
		names = append(names, "`"+name+"`")
	}
	return strings.Join(names, ", ")
}
