package trace

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gantry-project/gantry/internal/journal"
)

// Sizes of the board, in pixels, and how many rows it has at most.
const (
	boardCell, boardHead, boardMost = 116, 56, 60
)

// boardStyle are the colours of the board, light or dark as its viewer wants.
const boardStyle = `<style>
text{font:12px system-ui,sans-serif;fill:#16191d} .t{font-size:14px;font-weight:600} .q{fill:#545c66}
line{stroke:#d5d9df} .no{fill:#c0262d;font-weight:700} .ok{fill:#1a7f4b} .won{font-weight:700} rect{fill:#2e9e63}
@media (prefers-color-scheme:dark){text{fill:#e8ebef} .q{fill:#a5afba} line{stroke:#343b45}
.no{fill:#ff7b80} .ok{fill:#56c98a}}
</style>
`

// board is a scheduling attempt as a table: nodes by the plugins that refused and those that gave
// points.
type board struct {
	journal.Ruled
	filters, scorers []string
	most             map[string]int64 // the most points of each plugin
	weights          map[string]int64
}

func boardOf(r journal.Ruled) board {
	out := board{Ruled: r, most: map[string]int64{}, weights: map[string]int64{}}
	add := func(to *[]string, name string) {
		if !slices.Contains(*to, name) {
			*to = append(*to, name)
		}
	}
	for _, x := range r.Refusals {
		add(&out.filters, x.Plugin)
	}
	for _, x := range r.Counted {
		add(&out.filters, x.Plugin)
	}
	for _, s := range r.Scores {
		for _, p := range s.Parts {
			add(&out.scorers, p.Plugin)
			out.most[p.Plugin], out.weights[p.Plugin] = max(out.most[p.Plugin], p.Weighted), p.Weight
		}
	}
	out.Scores = slices.Clone(r.Scores)
	slices.SortStableFunc(out.Scores, func(a, b journal.NodeScore) int { return int(b.Total - a.Total) })
	return out
}

// WriteBoardSVG draws a scheduling attempt: a row for each node, a column for each plugin that
// refused a node or gave points, with why a node was refused.
func WriteBoardSVG(w io.Writer, title string, r journal.Ruled) error {
	t := boardOf(r)
	columns := len(t.filters) + len(t.scorers)
	if len(t.Scores) > 0 {
		columns++
	}
	rows := min(len(t.Scores), boardMost) + min(len(t.Refusals), boardMost) + len(t.Counted)
	width := 2*svgMargin + svgLabel/2 + boardCell*columns
	if len(t.Refusals)+len(t.Counted) > 0 {
		width += svgWidth
	}
	height := 2*svgMargin + boardHead + svgRow*(rows+2)
	var b strings.Builder
	width = max(width, svgWidth)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" `+
		`aria-label="%s">`+"\n%s", width, height, width, height, svgText(title), boardStyle)
	svgLine(&b, line{"t", svgMargin, svgMargin + 14, title})
	outcome := "no node fits"
	if t.Winner != "" {
		outcome = t.Winner + " won"
	}
	svgLine(&b, line{"q", svgMargin, svgMargin + 34, fmt.Sprintf("attempt %d of %s: %s; %d of %d nodes were looked at",
		t.Attempt, t.Profile, outcome, t.Visited, t.Nodes)})
	t.draw(&b, svgMargin+boardHead+svgRow)
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// line is a text at a place.
type line struct {
	class string
	x, y  int
	text  string
}

func svgLine(b *strings.Builder, l line) {
	fmt.Fprintf(b, `<text class="%s" x="%d" y="%d">%s</text>`+"\n", l.class, l.x, l.y, svgText(l.text))
}

// draw draws the head and the rows, from y down.
func (t board) draw(b *strings.Builder, y int) {
	column := func(i int) int { return svgMargin + svgLabel/2 + boardCell*i }
	for i, name := range t.filters {
		svgLine(b, line{"no", column(i), y - 6, shorten(name, 17)})
	}
	for i, name := range t.scorers {
		head := fmt.Sprintf("%s ×%d", shorten(name, 14), t.weights[name])
		svgLine(b, line{"", column(len(t.filters) + i), y - 6, head})
	}
	total := column(len(t.filters) + len(t.scorers))
	if len(t.Scores) > 0 {
		svgLine(b, line{"t", total, y - 6, "total"})
	}
	row := func(class, name string) int {
		fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n", svgMargin, y, total+boardCell, y)
		y += svgRow
		svgLine(b, line{class, svgMargin, y - 6, shorten(name, 22)})
		return y - 6
	}
	for _, s := range t.Scores[:min(len(t.Scores), boardMost)] {
		class := ""
		if s.Node == t.Winner {
			class = "won"
		}
		at := row(class, s.Node)
		for i := range t.filters {
			svgLine(b, line{"ok", column(i), at, "✓"})
		}
		for _, p := range s.Parts {
			x := column(len(t.filters) + slices.Index(t.scorers, p.Plugin))
			fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" opacity="%.2f"/>`, x-4, at-13,
				boardCell-6, svgRow-4, 0.5*float64(p.Weighted)/float64(max(t.most[p.Plugin], 1)))
			svgLine(b, line{"", x, at, fmt.Sprint(p.Weighted)})
		}
		svgLine(b, line{"won", total, at, fmt.Sprint(s.Total)})
	}
	refused := func(name, plugin, why string) {
		at := row("", name)
		svgLine(b, line{"no", column(slices.Index(t.filters, plugin)), at, "×"})
		svgLine(b, line{"q", column(len(t.filters)), at, shorten(why, 110)})
	}
	for _, x := range t.Refusals[:min(len(t.Refusals), boardMost)] {
		why := x.Detail
		if why == "" {
			why = strings.Join(x.Messages, "; ")
		}
		refused(x.Node, x.Plugin, why)
	}
	for _, x := range t.Counted {
		refused(fmt.Sprintf("%d more nodes", x.Nodes), x.Plugin, strings.Join(x.Messages, "; "))
	}
}
