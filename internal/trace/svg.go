package trace

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gantry-project/gantry/internal/svg"
)

// Sizes of the drawing, in pixels.
const (
	svgRow, svgLabel, svgWidth, svgMargin = 22, 300, 700, 16
)

// svgStyle are the colours of spans, by who did what they show.
const svgStyle = `rect{fill:#2f81d8} .stage{fill:#e7eaee;stroke:#545c66} .api{fill:#8a5bd6}
.scheduler{fill:#2e9e63} .error{fill:#d3353c}
@media (prefers-color-scheme:dark){.stage{fill:#262c34;stroke:#a5afba}}
`

// WriteSVG draws the spans as a waterfall: a row each, indented by depth, with its duration. It
// needs no file beside it, and is light or dark as its viewer wants.
func (l PodTrace) WriteSVG(w io.Writer) error {
	rows := waterfall(l.Spans, 0)
	from, to := l.Start, l.Start.Add(time.Millisecond)
	for _, r := range rows {
		if r.span.End.After(to) {
			to = r.span.End
		}
	}
	x := func(at time.Time) float64 {
		return svgMargin + svgLabel + float64(svgWidth)*float64(at.Sub(from))/float64(to.Sub(from))
	}
	width, height := 2*svgMargin+svgLabel+svgWidth+90, 2*svgMargin+svgRow*(len(rows)+2)
	p := svg.Picture{Title: fmt.Sprintf("The life of pod %s/%s", l.Ref.Namespace, l.Ref.Name), Style: svgStyle}
	p.Text("t", svgMargin, svgMargin+14, p.Title+", from "+from.UTC().Format(time.RFC3339Nano))
	for i, r := range rows {
		y := svgMargin + svgRow*(i+2)
		begin := x(r.span.Start)
		wide := max(1.5, x(r.span.End)-begin)
		p.Add(`<g><title>%s</title>`, strings.TrimSpace(r.span.Note+" "+r.span.Error))
		p.Line(svgMargin, y-4, width-svgMargin, y-4)
		p.Text("", svgMargin+14*r.depth, y+11, svg.Shorten(r.span.Name, 46-2*r.depth))
		p.Add(`<rect class="%s" x="%.1f" y="%d" width="%.1f" height="12" rx="2"/>`, r.class(), begin, y+1, wide)
		p.Add(`<text class="q" x="%.1f" y="%d">%s</text></g>`, begin+wide+4, y+11, roundTook(r.span.Took()))
	}
	return p.Write(w, width, height)
}

// waterfallRow is a span with its depth.
type waterfallRow struct {
	span  Span
	depth int
}

func waterfall(spans []Span, depth int) []waterfallRow {
	var out []waterfallRow
	for _, s := range spans {
		out = append(append(out, waterfallRow{s, depth}), waterfall(s.Children, depth+1)...)
	}
	return out
}

// class is the row's colour.
func (r waterfallRow) class() string {
	switch {
	case r.span.Error != "":
		return "error"
	case r.span.By == "":
		return "stage"
	case strings.HasPrefix(r.span.Name, "API "):
		return "api"
	case r.span.By == "scheduler":
		return "scheduler"
	}
	return "call"
}

// roundTook rounds to three digits or so.
func roundTook(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			return d.Round(unit / 10).String()
		}
	}
	return d.String()
}
