package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gantry-project/gantry/hack/bench/result"
)

// row is a row of the page: a figure of a part's newest run beside its budget.
type row struct {
	what         string // the row shows the 99th percentile where this ends with p99, else the median or the value
	budget       budget
	part, figure string
	other        string // the figure of the same run that this one is divided by
}

// parseRow parses WHAT | BUDGET | PART | FIGURE, optionally | OTHER. The other figure has the same
// name with its first part replaced by OTHER. A budget is ≤ or ≥, a number and a unit, or empty.
func parseRow(text string) (row, error) {
	cells := strings.Split(text, "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	if len(cells) != 4 && len(cells) != 5 {
		return row{}, fmt.Errorf("row %q: got %d cells, want 4 or 5", text, len(cells))
	}
	r := row{what: cells[0], part: cells[2], figure: cells[3]}
	if len(cells) == 5 {
		_, rest, _ := strings.Cut(r.figure, "/")
		r.other = cells[4] + "/" + rest
	}
	var err error
	if r.budget, err = parseBudget(cells[1]); err != nil {
		return row{}, fmt.Errorf("row %q: %w", text, err)
	}
	return r, nil
}

// value returns what the row shows of a figure; nil if it was not measured.
func (r row) value(f result.Figure) *float64 {
	switch {
	case strings.HasSuffix(r.what, "p99"):
		return f.P99
	case f.Median != nil:
		return f.Median
	}
	return f.Value
}

// budget is the goal for a figure, or for a ratio if the unit is ×.
type budget struct {
	text, unit string
	least      bool // ≥
	limit      float64
}

func parseBudget(text string) (budget, error) {
	if text == "" {
		return budget{}, nil
	}
	words := strings.Fields(text)
	if len(words) != 3 || words[0] != "≤" && words[0] != "≥" {
		return budget{}, fmt.Errorf("budget %q: want ≤ or ≥, a number and a unit", text)
	}
	limit, err := strconv.ParseFloat(strings.ReplaceAll(words[1], ",", ""), 64)
	return budget{text: text, unit: words[2], least: words[0] == "≥", limit: limit}, err
}

// convert returns v in the budget's unit, if that is another unit of the same quantity.
func (b budget) convert(v float64, unit string) (float64, string) {
	switch {
	case unit == "MiB" && b.unit == "MB":
		return v * (1 << 20) / 1e6, b.unit
	case unit == "ms" && b.unit == "µs":
		return v * 1000, b.unit
	}
	return v, unit
}

// kept reports whether a value, or a ratio, is within the budget; true without budget.
func (b budget) kept(v float64) bool {
	return b.text == "" || b.least && v >= b.limit || !b.least && v <= b.limit
}

// ratio returns the cell with the ratio to the other figure, or else to the budget; bold if the
// budget is missed, empty if there is neither.
func (r row) ratio(v float64, other *float64) string {
	by, kept := r.budget.limit, r.budget.kept(v)
	if other != nil {
		by = *other
		kept = r.budget.kept(v / by)
	}
	if by == 0 {
		return ""
	}
	text := fmt.Sprintf("%.2f", v/by)
	if v/by >= 10 {
		text = fmt.Sprintf("%.1f", v/by)
	}
	if !kept {
		return "**" + text + "**"
	}
	return text
}
