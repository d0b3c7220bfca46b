package packet

import (
	"fmt"
	"io"
	"slices"

	"github.com/gantry-project/gantry/internal/svg"
)

// Sizes of the picture, in pixels, and the letters of a line.
const (
	svgWidth, svgMargin, svgStep, svgLetters = 900, 16, 40, 130
)

const svgStyle = `line{stroke:#8a94a0} circle.passes{fill:#1a7f4b} circle.fails{fill:#c0262d} circle.unknown{fill:#9a5b00}
text.m{fill:#fff;font-weight:700}
`

// WriteSVG draws the steps of the packet: those that all take, then those of each endpoint.
func (r Result) WriteSVG(w io.Writer) error {
	p := svg.Picture{Title: fmt.Sprintf("%s from %s to %s: %s", r.Protocol, r.From, r.To, r.Outcome), Style: svgStyle}
	y := svgMargin + 14
	p.Text("t", svgMargin, y, svg.Shorten(p.Title, svgLetters))
	y += 20
	p.Text("q", svgMargin, y, svg.Shorten(r.Cause, svgLetters))
	ends := []string{""}
	for _, s := range r.Steps {
		if !slices.Contains(ends, s.Endpoint) {
			ends = append(ends, s.Endpoint)
		}
	}
	for _, end := range ends {
		x := svgMargin + 12
		if end != "" {
			x += 28
			y += 26
			p.Text("t", x-12, y, svg.Shorten("endpoint "+end, svgLetters))
		}
		first := true
		for _, s := range r.Steps {
			if s.Endpoint != end {
				continue
			}
			y += svgStep
			if !first {
				p.Line(x, y-svgStep+6, x, y-16)
			}
			first = false
			s.draw(&p, x, y)
		}
		y += 15
	}
	return p.Write(w, svgWidth, y+svgMargin)
}

// draw draws a step at a place.
func (s Step) draw(p *svg.Picture, x, y int) {
	class, mark := "passes", "✓"
	switch s.State {
	case Failed:
		class, mark = "fails", "×"
	case Uncertain:
		class, mark = "unknown", "?"
	}
	p.Add(`<circle class="%s" cx="%d" cy="%d" r="9"/>`, class, x, y-5)
	p.Add(`<text class="m" x="%d" y="%d" text-anchor="middle">%s</text>`, x, y-1, mark)
	p.Text("t", x+18, y, svg.Shorten(s.Name, svgLetters))
	p.Text("q", x+18, y+15, svg.Shorten(s.Text, svgLetters))
}
