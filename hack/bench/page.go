package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// page is docs/PERFORMANCE.md.
type page struct{ sections []section }

// section is one table, how it was measured, and the budget it is held against.
type section struct {
	Title, How, Budget string
	Head               []string
	Rows               [][]string
}

func (p *page) add(s section) { p.sections = append(p.sections, s) }

// tables prints the figures alone.
func (p *page) tables() string {
	var b strings.Builder
	for _, s := range p.sections {
		fmt.Fprintf(&b, "\n%s\n%s", s.Title, s.table())
	}
	return b.String()
}

func (s section) table() string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(s.Head)
	line(slices.Repeat([]string{"---"}, len(s.Head)))
	for _, r := range s.Rows {
		line(r)
	}
	return b.String()
}

const introduction = "# Performance\n\nMeasured and written by `make bench` on a machine of two cores; the figures move with the machine, the way of measuring does not.\n" +
	"Budgets are those of the design; they are goals, not limits that tests enforce.\n"

// write brings the page in file up to date: sections that were measured are replaced, others are kept as they are, new ones come before the scheduler's.
func (p *page) write(file string) error {
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(file, []byte(p.render(string(old))), 0o644)
}

// render is the whole page, made of an old one.
func (p *page) render(old string) string {
	const heading = "\n## "
	measured := map[string]string{}
	var titles []string
	for _, s := range p.sections {
		titles = append(titles, s.Title)
		measured[s.Title] = fmt.Sprintf("%s\n\n%s\nBudget: %s.\n\n%s\n", s.Title, s.table(), s.Budget, s.How)
	}
	var first, last []string // last begins with the scheduler's, which hack/schedperf measures
	kept := map[string]bool{}
	_, rest, _ := strings.Cut(old, heading)
	for _, part := range strings.Split(rest, heading) {
		title, _, _ := strings.Cut(part, "\n")
		if s, ok := measured[title]; ok {
			part = s
		}
		switch kept[title] = true; {
		case part == "":
		case title == "Scheduler" || len(last) > 0:
			last = append(last, strings.TrimSuffix(part, "\n")+"\n")
		default:
			first = append(first, strings.TrimSuffix(part, "\n")+"\n")
		}
	}
	for _, title := range titles {
		if !kept[title] {
			first = append(first, measured[title])
		}
	}
	return introduction + heading + strings.Join(append(first, last...), heading)
}

// quantile picks the value below which the share q lies; 0 of nothing.
func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// ms prints milliseconds, with a decimal below ten.
func ms(d time.Duration) string {
	n := float64(d) / float64(time.Millisecond)
	if n < 10 {
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

func mib(kib int64) string { return fmt.Sprintf("%.0f", float64(kib)/1024) }
