package capacity

import (
	"fmt"
	"io"

	"github.com/gantry-project/gantry/internal/svg"
)

// Sizes of the picture.
const (
	svgWidth, labelWidth, barWidth = 960, 380, 420
	rowHeight                      = 22
	mostRows                       = 40 // of shapes, and of causes
)

const svgStyle = ".fits{fill:#3f9b5f} .lacks{fill:#c0504d}\n"

// chart is a part of the picture: rows of one colour below a heading.
type chart struct {
	heading, class string
	rows           []bar
}

// bar is a row of a chart.
type bar struct {
	label, text string
	value       float64
}

// WriteSVG draws how many Pods each shape of node takes, and below them what runs out.
func (a Answer) WriteSVG(w io.Writer) error {
	var shapes, causes []bar
	best := a.Best()
	for i, s := range a.Shapes {
		text := fmt.Sprintf("%.1f per node, %.1f per core; %d on %d nodes", s.PerNode, s.PerCore, s.Fits, s.Nodes)
		if best == &a.Shapes[i] && len(a.Shapes) > 1 {
			text += ": best"
		}
		shapes = append(shapes, bar{s.Allocatable, text, s.PerNode})
	}
	for _, c := range a.RunsOut {
		causes = append(causes, bar{c.What, fmt.Sprintf("on %d nodes", c.Nodes), float64(c.Nodes)})
	}
	more := ""
	if a.Limited {
		more = " and maybe more"
	}
	d := svg.Picture{Title: fmt.Sprintf("%d%s fit on %d nodes", a.Fits, more, a.Nodes), Style: svgStyle}
	d.Text("t", 8, 20, d.Title)
	y := chart{"Pods per node, by what nodes have", "fits", shapes}.draw(&d, 40)
	y = chart{"What runs out, by the number of nodes", "lacks", causes}.draw(&d, y+14)
	return d.Write(w, svgWidth, y)
}

// draw draws the chart from y down and returns where the next may begin.
func (c chart) draw(d *svg.Picture, y int) int {
	if len(c.rows) == 0 {
		return y
	}
	most := 0.0
	for _, r := range c.rows {
		most = max(most, r.value)
	}
	d.Text("t", 8, y+12, c.heading)
	y += rowHeight
	for i, r := range c.rows {
		if i == mostRows {
			d.Text("q", 8, y+15, fmt.Sprintf("and %d more", len(c.rows)-i))
			return y + rowHeight
		}
		width := 1
		if most > 0 {
			width = max(1, int(barWidth*r.value/most/2))
		}
		d.Text("", 8, y+15, r.label)
		d.Rect(svg.Rect{X: labelWidth, Y: y + 3, Width: width, Height: rowHeight - 6, Class: c.class})
		d.Text("q", labelWidth+width+8, y+15, r.text)
		y += rowHeight
	}
	return y
}
