package replay

import (
	"fmt"
	"io"
	"sort"
)

// AreaCount counts equal cases of an area.
type AreaCount struct{ Same, Near, All int }

// Unequal is a case whose answers were not the recorded ones.
type Unequal struct {
	Name        string // area/case
	Near        bool   // equal where clients look
	Err         error  // the case could not be replayed
	Differences []Difference
}

// Report collects results by area.
type Report struct {
	Areas   map[string]*AreaCount
	Unequal []Unequal
}

// Add notes a case; near means equal in what clients act on (code, reason and causes, or states),
// though not in every word.
func (r *Report) Add(area string, same, near bool) {
	if r.Areas == nil {
		r.Areas = map[string]*AreaCount{}
	}
	t := r.Areas[area]
	if t == nil {
		t = &AreaCount{}
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
func (r *Report) Explain(u Unequal) { r.Unequal = append(r.Unequal, u) }

// WriteDetails prints every difference of every unequal case.
func (r *Report) WriteDetails(w io.Writer) {
	for _, u := range r.Unequal {
		near := ""
		if u.Near {
			near = "  (same where clients look)"
		}
		fmt.Fprintf(w, "%s%s\n", u.Name, near)
		if u.Err != nil {
			fmt.Fprintf(w, "    not replayed: %v\n", u.Err)
		}
		for i, d := range u.Differences {
			if i == 12 {
				fmt.Fprintf(w, "    and %d more\n", len(u.Differences)-i)
				break
			}
			fmt.Fprintf(w, "    %s\n", d)
		}
	}
}

// Line is an area's share in one line.
func (r *Report) Line(area string) string {
	t := r.Areas[area]
	if t == nil {
		return "nothing to do"
	}
	return fmt.Sprintf("%s of %d same, %s where clients look", share(t.Same, t.All), t.All, share(t.Near, t.All))
}

// Total adds up all areas.
func (r *Report) Total() AreaCount {
	var t AreaCount
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

func row(w io.Writer, name string, t AreaCount) {
	fmt.Fprintf(w, "| %s | %d | %s | %s |\n", name, t.All, share(t.Same, t.All), share(t.Near, t.All))
}

func share(n, of int) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf("%d (%.0f %%)", n, 100*float64(n)/float64(of))
}
