package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gantry-project/gantry/hack/bench/result"
)

const (
	results    = "../../docs/performance"
	mostLines  = 150
	mostColumn = 100
)

// readDoc returns a page of docs/performance and checks the width of its lines.
func readDoc(t *testing.T, name string) (text string, lines []string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(results, name))
	if err != nil {
		t.Fatal(err)
	}
	lines = strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	for n, line := range lines {
		if wide := utf8.RuneCountInString(line); wide > mostColumn {
			t.Errorf("%s:%d: got %d columns, want at most %d: %s", name, n+1, wide, mostColumn, line)
		}
	}
	return string(raw), lines
}

// The page is rendered from its JSON files, and short.
func TestPageIsRendered(t *testing.T) {
	got, lines := readDoc(t, pageFile)
	want, err := renderPage(results)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("docs/performance/%s is not what its JSON files say: run `make bench-page`", pageFile)
	}
	if len(lines) > mostLines {
		t.Errorf("got %d lines, want at most %d: leave out rows of page.tmpl", len(lines), mostLines)
	}
}

// Every file says what was measured, where, when and how, and is named after its part.
func TestResultsSayWhereTheyAreFrom(t *testing.T) {
	runs, err := readRuns(results)
	if err != nil || len(runs) == 0 {
		t.Fatalf("got %d results, %v, want some", len(runs), err)
	}
	for _, r := range runs {
		for name, v := range map[string]string{
			"commit": r.Commit, "machine": r.Machine, "date": r.Date, "load": r.Load, "command": r.Command,
		} {
			if v == "" {
				t.Errorf("%s: got no %s, want one", r.file, name)
			}
		}
		if !strings.HasPrefix(r.file, r.Part) {
			t.Errorf("%s: got part %s, want one with which the file's name begins", r.file, r.Part)
		}
	}
}

// Rows name figures that runs write; these two are the only ones that no run measures yet.
func TestRowsAreMeasured(t *testing.T) {
	_, lines := readDoc(t, pageFile)
	var got []string
	for _, line := range lines {
		if cells := strings.Split(line, " | "); len(cells) > 2 && cells[2] == "not measured" {
			got = append(got, strings.TrimPrefix(cells[0], "| "))
		}
	}
	if want := []string{"idle RSS beside upstream's processes", "journal: CPU"}; !slices.Equal(got, want) {
		t.Errorf("got %q not measured, want %q", got, want)
	}
}

// A row shows the newest run that has what it needs, and whether the budget is kept.
//
// row: OPS-08
func TestRowsOfThePage(t *testing.T) {
	run := func(file, date string, figures ...result.Figure) fileRun {
		r := result.Run{Part: "api", Commit: "0123456789ab+changes", Machine: "m", Date: date, Figures: figures}
		return fileRun{r, file}
	}
	value := result.Value
	p := page{runs: []fileRun{
		run("new.json", "2026-11-24T01:00:00Z", value("a/x", "ms", 50)),
		run("old.json", "2026-11-23", value("a/x", "ms", 40), value("b/x", "ms", 80), value("memory", "MiB", 100)),
	}}
	for text, want := range map[string]string{
		"w | ≤ 50 ms | api | a/x":         "| w | ≤ 50 ms | 50 ms | 1.00 | A | 0123456+ | 2026-11-24 |",
		"w | ≤ 49 ms | api | a/x":         "| w | ≤ 49 ms | 50 ms | **1.02** | A | 0123456+ | 2026-11-24 |",
		"w | ≥ 2 × | api | a/x | b":       "| w | ≥ 2 × | 40 ms | **0.50** | A | 0123456+ | 2026-11-23 |",
		"w |  | api | a/x | b":            "| w |  | 40 ms | 0.50 | A | 0123456+ | 2026-11-23 |",
		"w | ≤ 110 MB | api | memory":     "| w | ≤ 110 MB | 105 MB | 0.95 | A | 0123456+ | 2026-11-23 |",
		"w, p99 | ≤ 1,000 ms | api | a/x": "| w, p99 | ≤ 1,000 ms | not measured |  |  |  |  |",
		"w |  | dns | a/x":                "| w |  | not measured |  |  |  |  |",
		"w | 50 ms | api | a/x":           "",
		"w | api | a/x":                   "",
	} {
		got, err := p.row(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
}

// A line of the history has a date, both values and evidence that is there, and stands below the
// older ones.
func TestHistoryIsAppended(t *testing.T) {
	_, lines := readDoc(t, "history.md")
	form := regexp.MustCompile(`^- (\d{4}-\d\d-\d\d) .+: .+ → .+ \((page@[0-9a-f]{7}|[a-z0-9-]+\.json|Benchmark\w+)\)$`)
	last := ""
	for n, line := range lines {
		if !strings.HasPrefix(line, "- ") {
			continue
		}
		m := form.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("history.md:%d: got %q, want - DATE WHAT: BEFORE → AFTER (EVIDENCE)", n+1, line)
			continue
		}
		if m[1] < last {
			t.Errorf("history.md:%d: got %s after %s, want lines in order", n+1, m[1], last)
		}
		last = m[1]
		if _, err := os.Stat(filepath.Join(results, m[2])); strings.HasSuffix(m[2], ".json") && err != nil {
			t.Errorf("history.md:%d: got %v, want evidence that is there", n+1, err)
		}
	}
	if last == "" {
		t.Error("got no lines in history.md, want some")
	}
}
