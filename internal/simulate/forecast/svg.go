package forecast

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gantry-project/gantry/internal/svg"
)

const (
	labelWidth = 360
	chartWidth = 720
	rowHeight  = 18
	chartTop   = 50
)

// svgStyle are the colours of a Pod's stages, and of the curves of how many Pods there are, and are
// ready.
const svgStyle = `.waiting{fill:#9aa4b2} .starting{fill:#e0a030} .ready{fill:#3f9b5f} .leaving{fill:#c0504d}
polyline{fill:none;stroke-width:2} polyline.all{stroke:#9aa4b2} polyline.serving{stroke:#3f9b5f}
`

// mostLetters is how many of a line fit into the picture's width.
const mostLetters = 165

// WriteSVG draws the lives of the Pods as bars, and below them how many are ready; then it says
// what the text says of loads, of what is held up or does not become ready, and of what helps.
func (f *Forecast) WriteSVG(w io.Writer) error {
	end := max(f.end(), time.Second)
	height := chartTop + rowHeight*len(f.Pods) + 40
	if len(f.Capacity) > 0 {
		height += capacityHeight + 40
	}
	title, least, _ := strings.Cut(f.Sentence(), "\n")
	d := svg.Picture{Title: title, Style: svgStyle}
	d.Text("t", 8, 18, d.Title)
	f.drawAxis(&d, end)
	for i, p := range f.Pods {
		p.draw(&d, chartTop+i*rowHeight, end)
	}
	if len(f.Capacity) > 0 {
		f.drawCapacity(&d, chartTop+rowHeight*len(f.Pods)+30, end)
	}
	var said strings.Builder
	said.WriteString(least + "\n")
	f.writeLoads(&said)
	f.writeTroubles(&said)
	for line := range strings.Lines(said.String()) {
		if line = strings.TrimRight(line, "\n"); line == "" {
			continue
		}
		indent := len(line) - len(strings.TrimLeft(line, " "))
		d.Add(`<text x="%d" y="%d">%s<title>%s</title></text>`, 8+8*indent, height, svg.Shorten(line[indent:],
			mostLetters-2*indent), line[indent:])
		height += rowHeight
	}
	return d.Write(w, labelWidth+chartWidth+20, height)
}

// end is the last time that is drawn.
func (f *Forecast) end() time.Duration {
	last := time.Duration(0)
	for _, p := range f.Pods {
		for _, t := range []*time.Duration{p.Created, p.Scheduled, p.Running, p.Ready, p.Leaves, p.Gone} {
			if t != nil {
				last = max(last, *t)
			}
		}
	}
	for _, m := range f.Capacity {
		last = max(last, m.At)
	}
	return last + last/20
}

func x(at, end time.Duration) int { return labelWidth + int(at*chartWidth/end) }

func (f *Forecast) drawAxis(d *svg.Picture, end time.Duration) {
	for i := range 9 {
		at := end * time.Duration(i) / 8
		d.Line(x(at, end), chartTop-8, x(at, end), chartTop+rowHeight*len(f.Pods))
		d.Add(`<text class="q" x="%d" y="%d" text-anchor="middle">%s</text>`, x(at, end), chartTop-12, seconds(at))
	}
}

// draw draws one Pod's bar.
func (p Pod) draw(d *svg.Picture, y int, end time.Duration) {
	label := p.Key()
	if p.Node != "" {
		label += " on " + p.Node
	}
	d.Text("", 8, y+12, label)
	stages := []struct {
		from        *time.Duration
		class, name string
	}{{p.Created, "waiting", "waits"}, {p.Scheduled, "starting", "starts"}, {p.Ready, "ready", "is ready"},
		{p.Leaves, "leaving", "leaves"}}
	if p.Created == nil {
		zero := time.Duration(0)
		stages[2].from = &zero // it was there before
	}
	for i, s := range stages {
		if s.from == nil {
			continue
		}
		until := end
		if p.Gone != nil {
			until = *p.Gone
		}
		for _, later := range stages[i+1:] {
			if later.from != nil {
				until = *later.from
				break
			}
		}
		from := x(*s.from, end)
		d.Rect(svg.Rect{X: from, Y: y + 2, Width: max(x(until, end)-from, 1), Height: rowHeight - 5, Class: s.class,
			Title: fmt.Sprintf("%s %s from %s to %s", p.Key(), s.name, seconds(*s.from), seconds(until))})
	}
}

const capacityHeight = 100

// drawCapacity draws how many Pods there are, and how many of them are ready.
func (f *Forecast) drawCapacity(d *svg.Picture, y int, end time.Duration) {
	most := int32(1)
	for _, m := range f.Capacity {
		most = max(most, m.Total, m.Desired)
	}
	line := func(name, class string, of func(Capacity) int32) {
		var points []string
		last := int32(-1)
		for _, m := range f.Capacity {
			h := func(n int32) int { return y + capacityHeight - int(n)*capacityHeight/int(most) }
			if last >= 0 {
				points = append(points, fmt.Sprintf("%d,%d", x(m.At, end), h(last)))
			}
			last = of(m)
			points = append(points, fmt.Sprintf("%d,%d", x(m.At, end), h(last)))
		}
		points = append(points, fmt.Sprintf("%d,%d", x(end, end), y+capacityHeight-int(last)*capacityHeight/int(most)))
		d.Add(`<polyline class="%s" points="%s"><title>%s</title></polyline>`, class, strings.Join(points, " "), name)
	}
	d.Text("", 8, y+12, fmt.Sprintf("Pods: ready (green), all (grey); at most %d", most))
	line("all Pods", "all", func(m Capacity) int32 { return m.Total })
	line("ready Pods", "serving", func(m Capacity) int32 { return m.Ready })
}
