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

//go:embed page.md
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

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

// renderPage is the page of a directory of results.
func renderPage(dir string) (string, error) {
	runs, err := readRuns(dir)
	if err != nil {
		return "", err
	}
	p := page{runs: runs}
	view := struct {
		Sections     []renderedSection
		Files, Notes []string
	}{Sections: p.sections(sections)}
	view.Files, view.Notes = p.files(), p.notes()
	var b bytes.Buffer
	err = pageTemplate.Execute(&b, view)
	return b.String(), err
}

// fileRun is a run with the name of its file.
type fileRun struct {
	result.Run
	file string
}

// readRuns reads the results of a directory, the newest first.
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

// page is what one rendering refers to.
type page struct {
	runs     []fileRun
	used     []fileRun // from which a figure was taken, in the order of the page
	machines []string  // of these
}

type renderedSection struct {
	Title string
	Rows  []string // cells, joined
}

func (p *page) sections(all []section) (out []renderedSection) {
	for _, s := range all {
		r := renderedSection{Title: s.title}
		for _, l := range s.lines {
			r.Rows = append(r.Rows, strings.Join(p.cells(l), " | "))
		}
		out = append(out, r)
	}
	return out
}

// cells are those of a line: what, budget, measured, ratio, machine, commit, date.
func (p *page) cells(l line) []string {
	f, ok := p.find(l)
	if !ok {
		return []string{l.what, l.budget.String(), "not measured", "", "", "", ""}
	}
	v, unit := l.budget.convert(*f.measured, f.unit)
	measured := result.Number(v) + shortUnit(unit)
	r := f.run
	return []string{l.what, l.budget.String(), measured, l.ratio(v, f.other), p.use(r), shortCommit(r.Commit), day(r.Date)}
}

// found is what a line shows: the run that has its figure, the value and the one that it is set
// against.
type found struct {
	run             fileRun
	unit            string
	measured, other *float64
}

// find looks for a line's figure, and for the one that it is set against, in the newest run that
// has both.
func (p *page) find(l line) (found, bool) {
	for _, run := range p.runs {
		if run.Part != l.part {
			continue
		}
		own, _ := run.Find(l.figure)
		against, _ := run.Find(l.against)
		f := found{run, own.Unit, l.stat.of(own), l.stat.of(against)}
		if f.measured != nil && (l.against == "" || f.other != nil) {
			return f, true
		}
	}
	return found{}, false
}

// use notes that the page has a figure of a run, and returns the letter of the run's machine.
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

// files are the lines of the files that the page took figures from.
func (p *page) files() (out []string) {
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

// notes say what the machines are, and which programs were measured beside Gantry.
func (p *page) notes() (out []string) {
	for i, m := range p.machines {
		out = append(out, fmt.Sprintf("Machine %c: %s.", 'A'+i, m))
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

// shortCommit is the first seven letters of a commit, with "+" where the source was changed since.
func shortCommit(c string) string {
	hash, _, changed := strings.Cut(c, "+")
	if hash = hash[:min(7, len(hash))]; changed {
		hash += "+"
	}
	return hash
}

func day(date string) string { return date[:min(len("2006-01-02"), len(date))] }

// shortUnit is a unit as it follows a number in a narrow column.
func shortUnit(unit string) string {
	switch unit {
	case "% of a core":
		return " %"
	case "/s":
		return "/s"
	case "":
		return ""
	}
	return " " + unit
}
