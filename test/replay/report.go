package replay

import (
	"fmt"
	"io"
	"sort"
)

// Tally counts equal cases of an area.
type Tally struct{ Same, Near, All int }

// Report collects results by area.
type Report struct {
	Areas map[string]*Tally
	Lines []string // one block per unequal case
}

// Add notes a case; near means equal in what clients act on (code, reason and causes, or states), though not in every word.
func (r *Report) Add(area string, same, near bool) {
	if r.Areas == nil {
		r.Areas = map[string]*Tally{}
	}
	t := r.Areas[area]
	if t == nil {
		t = &Tally{}
		r.Areas[area] = t
	}
	t.All++
	if same {
		t.Same++
	}
	if same || near {
		t.Near++
	}
}

// Explain notes the differences of an unequal case.
func (r *Report) Explain(name string, err error, diffs []Difference) {
	r.Lines = append(r.Lines, name)
	if err != nil {
		r.Lines = append(r.Lines, "    "+err.Error())
	}
	for i, d := range diffs {
		if i == 8 {
			r.Lines = append(r.Lines, fmt.Sprintf("    and %d more", len(diffs)-i))
			break
		}
		r.Lines = append(r.Lines, "    "+d.String())
	}
}

// Total adds up all areas.
func (r *Report) Total() Tally {
	var t Tally
	for _, a := range r.Areas {
		t.Same += a.Same
		t.Near += a.Near
		t.All += a.All
	}
	return t
}

// WriteTable prints the shares as a Markdown table.
func (r *Report) WriteTable(w io.Writer) {
	names := make([]string, 0, len(r.Areas))
	for n := range r.Areas {
		names = append(names, n)
	}
	sort.Strings(names)
	fmt.Fprintf(w, "| Area | Cases | Same | Same where clients look |\n| --- | --- | --- | --- |\n")
	for _, n := range names {
		row(w, n, *r.Areas[n])
	}
	row(w, "**all**", r.Total())
}

func row(w io.Writer, name string, t Tally) {
	fmt.Fprintf(w, "| %s | %d | %s | %s |\n", name, t.All, share(t.Same, t.All), share(t.Near, t.All))
}

func share(n, of int) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf("%d (%.0f %%)", n, 100*float64(n)/float64(of))
}
