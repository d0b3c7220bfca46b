package capacity

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// Sizes of the picture, and its colors, readable on light and dark ground.
const (
	svgWidth, labelWidth, barWidth = 960, 380, 420
	rowHeight                      = 22
	colorFits, colorLacks          = "#3f9b5f", "#c0504d"
	mostRows                       = 40 // of shapes, and of causes
)

// chart is a part of the picture: rows of one color below a heading.
type chart struct {
	heading, color string
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
	title := fmt.Sprintf("%d%s fit on %d nodes", a.Fits, more, a.Nodes)
	var b strings.Builder
	y := chart{"Pods per node, by what nodes have", colorFits, shapes}.draw(&b, 40)
	y = chart{"What runs out, by the number of nodes", colorLacks, causes}.draw(&b, y+14)
	head := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" `+
		`font-family="system-ui,sans-serif" font-size="12" fill="#667">`+"\n<title>%s</title>\n"+
		`<text x="8" y="20" font-size="14">%s</text>`+"\n", svgWidth, y, html.EscapeString(title),
		html.EscapeString(title))
	_, err := io.WriteString(w, head+b.String()+"</svg>\n")
	return err
}

// draw draws the chart from y down and returns where the next may begin.
func (c chart) draw(b *strings.Builder, y int) int {
	if len(c.rows) == 0 {
		return y
	}
	most := 0.0
	for _, r := range c.rows {
		most = max(most, r.value)
	}
	fmt.Fprintf(b, `<text x="8" y="%d" font-weight="600">%s</text>`+"\n", y+12, c.heading)
	y += rowHeight
	for i, r := range c.rows {
		if i == mostRows {
			fmt.Fprintf(b, `<text x="8" y="%d">and %d more</text>`+"\n", y+15, len(c.rows)-i)
			return y + rowHeight
		}
		width := 1
		if most > 0 {
			width = max(1, int(barWidth*r.value/most/2))
		}
		fmt.Fprintf(b, `<text x="8" y="%d">%s</text><rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`+
			`<text x="%d" y="%d">%s</text>`+"\n", y+15, html.EscapeString(r.label), labelWidth, y+3, width, rowHeight-6,
			c.color, labelWidth+width+8, y+15, html.EscapeString(r.text))
		y += rowHeight
	}
	return y
}
