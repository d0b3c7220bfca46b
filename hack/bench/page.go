package main

import (
	"fmt"
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

// render is the whole page.
func (p *page) render() string {
	var b strings.Builder
	b.WriteString("# Performance\n\nMeasured and written by `make bench` on a machine of two cores; the figures move with the machine, the way of measuring does not.\n" +
		"Budgets are those of the design; they are goals, not limits that tests enforce.\n")
	for _, s := range p.sections {
		fmt.Fprintf(&b, "\n## %s\n\n%s\nBudget: %s.\n\n%s\n", s.Title, s.table(), s.Budget, s.How)
	}
	return b.String()
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
