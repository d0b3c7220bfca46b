package trace

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/svg"
)

// Sizes of the board, in pixels, and how many rows it has at most.
const (
	boardCell, boardHead, boardMost = 116, 56, 60
)

// boardStyle are the colours of the board.
const boardStyle = `text.won{font-weight:700} rect{fill:#2e9e63}
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
	p := svg.Picture{Title: title, Style: boardStyle}
	p.Text("t", svgMargin, svgMargin+14, title)
	outcome := "no node fits"
	if t.Winner != "" {
		outcome = t.Winner + " won"
	}
	p.Text("q", svgMargin, svgMargin+34, fmt.Sprintf("attempt %d of %s: %s; %d of %d nodes were looked at", t.Attempt,
		t.Profile, outcome, t.Visited, t.Nodes))
	t.draw(&p, svgMargin+boardHead+svgRow)
	return p.Write(w, max(width, svgWidth), height)
}

// draw draws the head and the rows, from y down.
func (t board) draw(p *svg.Picture, y int) {
	column := func(i int) int { return svgMargin + svgLabel/2 + boardCell*i }
	for i, name := range t.filters {
		p.Text("no", column(i), y-6, svg.Shorten(name, 17))
	}
	for i, name := range t.scorers {
		head := fmt.Sprintf("%s ×%d", svg.Shorten(name, 14), t.weights[name])
		p.Text("", column(len(t.filters)+i), y-6, head)
	}
	total := column(len(t.filters) + len(t.scorers))
	if len(t.Scores) > 0 {
		p.Text("t", total, y-6, "total")
	}
	row := func(class, name string) int {
		p.Line(svgMargin, y, total+boardCell, y)
		y += svgRow
		p.Text(class, svgMargin, y-6, svg.Shorten(name, 22))
		return y - 6
	}
	for _, s := range t.Scores[:min(len(t.Scores), boardMost)] {
		class := ""
		if s.Node == t.Winner {
			class = "won"
		}
		at := row(class, s.Node)
		for i := range t.filters {
			p.Text("ok", column(i), at, "✓")
		}
		for _, part := range s.Parts {
			x := column(len(t.filters) + slices.Index(t.scorers, part.Plugin))
			p.Add(`<rect x="%d" y="%d" width="%d" height="%d" opacity="%.2f"/>`, x-4, at-13,
				boardCell-6, svgRow-4, 0.5*float64(part.Weighted)/float64(max(t.most[part.Plugin], 1)))
			p.Text("", x, at, fmt.Sprint(part.Weighted))
		}
		p.Text("won", total, at, fmt.Sprint(s.Total))
	}
	refused := func(name, plugin, why string) {
		at := row("", name)
		p.Text("no", column(slices.Index(t.filters, plugin)), at, "×")
		p.Text("q", column(len(t.filters)), at, svg.Shorten(why, 110))
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
