package probeplan

import (
	"fmt"
	"io"
	"time"

	"github.com/gantry-project/gantry/internal/svg"
)

// Sizes of the picture, in pixels.
const (
	svgWidth, svgLabel, svgRow, svgTop = 900, 330, 28, 52
	svgBarHeight                       = 16
)

// svgStyle are the colours of the time in which something has not happened yet, of that in which it
// may happen, and of what was asked for.
const svgStyle = `.before{fill:#2e9e63} .may{fill:#d98a00} .asked{fill:#7fb2e5}
`

// svgLine is one line of the picture: bars from one time to another, and a text behind them.
type svgLine struct {
	label string
	bars  []svgBar
	text  string
}

type svgBar struct {
	from, to time.Duration
	class    string
}

// timing is the line of a probe: before the first of its times nothing happens.
func timing(label string, t Timing) svgLine {
	w := t.GivesUp()
	return svgLine{label, []svgBar{{0, w.Min, "before"}, {w.Min, w.Max, "may"}},
		fmt.Sprintf("%s to %s: %s", seconds(w.Min), seconds(w.Max), t.Arithmetic())}
}

// WriteSVG draws what becomes of a container that hangs, over time: how long it keeps its traffic,
// when it is restarted, within which time that was asked for; and how long it may take to start.
func (p Plan) WriteSVG(w io.Writer) error {
	asked := p.Ask.Restart
	lines := []svgLine{timing("readiness: leaves the traffic", p.Readiness),
		timing("liveness: is stopped and started again", p.Liveness),
		{"asked for: restarted within", []svgBar{{asked.Min, asked.Max, "asked"}},
			seconds(asked.Min) + " to " + seconds(asked.Max)}}
	if p.Startup != nil {
		lines = append(lines, timing("startup: a start that takes longer is ended", *p.Startup),
			svgLine{"the slowest start", []svgBar{{0, p.Ask.Start, "asked"}}, seconds(p.Ask.Start)})
	}
	last := time.Second
	for _, l := range lines {
		for _, b := range l.bars {
			last = max(last, b.to)
		}
	}
	d := svg.Picture{Title: fmt.Sprintf("Container %s hangs at 0 s", p.Ask.Container), Style: svgStyle}
	d.Text("t", 8, 20, d.Title)
	x := func(at time.Duration) int { return svgLabel + int((svgWidth-svgLabel-190)*at/last) }
	for i, l := range lines {
		y, end := svgTop+i*svgRow, time.Duration(0)
		d.Line(8, y-6, svgWidth-8, y-6)
		d.Text("", 8, y+12, l.label)
		for _, b := range l.bars {
			d.Rect(svg.Rect{X: x(b.from), Y: y, Width: max(1, x(b.to)-x(b.from)), Height: svgBarHeight, Class: b.class})
			end = b.to
		}
		d.Text("q", x(end)+8, y+12, l.text)
	}
	return d.Write(w, svgWidth, svgTop+len(lines)*svgRow+8)
}
