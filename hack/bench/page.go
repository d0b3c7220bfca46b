package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/gantry-project/gantry/hack/bench/result"
)

// pageText is the page but for figures: a row of it names a figure.
//
//go:embed page.tmpl
var pageText string

// pageFile is the page's name in the directory of the results.
const pageFile = "README.md"

// writePage renders the page of a directory of results into it.
func writePage(dir string) error {
	text, err := renderPage(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, pageFile), []byte(text), 0o644)
}

// renderPage renders the page of a directory of results.
func renderPage(dir string) (string, error) {
	runs, err := readRuns(dir)
	if err != nil {
		return "", err
	}
	p := &page{runs: runs}
	words := template.FuncMap{"row": p.row, "list": func(words ...string) []string { return words }}
	t, err := template.New("page").Funcs(words).Parse(pageText)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = t.Execute(&b, p)
	return b.String(), err
}

// fileRun is a run with the name of its file.
type fileRun struct {
	result.Run
	file string
}

// readRuns reads the results of a directory, newest first.
func readRuns(dir string) ([]fileRun, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var runs []fileRun
	for _, file := range files {
		r, err := result.Read(file)
		if err != nil {
			return nil, err
		}
		runs = append(runs, fileRun{r, filepath.Base(file)})
	}
	slices.SortStableFunc(runs, func(a, b fileRun) int { return strings.Compare(b.Date, a.Date) })
	return runs, nil
}

// page is the state of one rendering.
type page struct {
	runs     []fileRun
	used     []fileRun // runs with a figure on the page, in its order
	machines []string  // of these
}

// row is a line of a table: what, budget, measured, ratio, machine, commit, date.
func (p *page) row(text string) (string, error) {
	r, err := parseRow(text)
	if err != nil {
		return "", err
	}
	cells := []string{r.what, r.budget.text, "not measured", "", "", "", ""}
	if f, ok := p.find(r); ok {
		v, unit := r.budget.convert(*f.measured, f.unit)
		unit = strings.TrimSuffix(" "+unit, " of a core")
		measured := result.Number(v) + strings.Replace(unit, " /s", "/s", 1)
		cells = append(cells[:2], measured, r.ratio(v, f.other), p.use(f.run), shortCommit(f.run.Commit),
			day(f.run.Date))
	}
	return "| " + strings.Join(cells, " | ") + " |", nil
}

// found is what a row shows: the run with its figure, the value and the value it is divided by.
type found struct {
	run             fileRun
	unit            string
	measured, other *float64
}

// find returns a row's figure, and the one it is divided by, from the newest run that has both.
func (p *page) find(r row) (found, bool) {
	for _, run := range p.runs {
		if run.Part != r.part {
			continue
		}
		own, _ := run.Find(r.figure)
		other, _ := run.Find(r.other)
		f := found{run, own.Unit, r.value(own), r.value(other)}
		if f.measured != nil && (r.other == "" || f.other != nil) {
			return f, true
		}
	}
	return found{}, false
}

// use records that the page uses a run, and returns the letter of its machine.
func (p *page) use(r fileRun) string {
	if !slices.ContainsFunc(p.used, func(o fileRun) bool { return o.file == r.file }) {
		p.used = append(p.used, r)
	}
	i := slices.Index(p.machines, r.Machine)
	if i < 0 {
		i, p.machines = len(p.machines), append(p.machines, r.Machine)
	}
	return string(rune('A' + i))
}

// Files returns lines about the files that the page used.
func (p *page) Files() (out []string) {
	for _, r := range p.used {
		commit := shortCommit(r.Commit)
		if r.Transcribed {
			commit += " t"
		}
		link := fmt.Sprintf("[%s](%s)", strings.TrimSuffix(r.file, ".json"), r.file)
		out = append(out, strings.Join([]string{link, p.use(r), r.Load, commit, day(r.Date)}, " | "))
	}
	return out
}

// Notes describes the machines, and the programs measured beside Gantry.
func (p *page) Notes() (out []string) {
	for i, m := range p.machines {
		if i%2 == 0 { // two fit in a line
			out = append(out, "")
		} else {
			out[len(out)-1] += " "
		}
		out[len(out)-1] += fmt.Sprintf("Machine %c: %s.", 'A'+i, m)
	}
	besides := map[string][]string{}
	for _, r := range p.used {
		if r.Beside != "" {
			besides[r.Beside] = append(besides[r.Beside], strings.TrimSuffix(r.file, ".json"))
		}
	}
	for _, program := range slices.Sorted(maps.Keys(besides)) {
		out = append(out, fmt.Sprintf("Beside %s: %s.", program, strings.Join(besides[program], ", ")))
	}
	return out
}

// shortCommit returns the first seven digits of a commit, with "+" if the source was changed.
func shortCommit(c string) string {
	hash, _, changed := strings.Cut(c, "+")
	if hash = hash[:min(7, len(hash))]; changed {
		hash += "+"
	}
	return hash
}

func day(date string) string { return date[:min(len("2006-01-02"), len(date))] }
