package forecast

import (
	"fmt"
	"html"
	"io"
	"strings"
	"time"
)

const (
	labelWidth = 360
	chartWidth = 720
	rowHeight  = 18
	chartTop   = 50
)

// Colors are the fills of a Pod's stages, readable on light and dark ground.
const (
	colorWaiting  = "#9aa4b2"
	colorStarting = "#e0a030"
	colorReady    = "#3f9b5f"
	colorLeaving  = "#c0504d"
)

// WriteSVG draws the lives of the Pods as bars, and below them how many are ready.
func (f *Forecast) WriteSVG(w io.Writer) error {
	var b strings.Builder
	end := max(f.end(), time.Second)
	height := chartTop + rowHeight*len(f.Pods) + 40
	if len(f.Capacity) > 0 {
		height += capacityHeight + 40
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" `+
		`font-family="system-ui,sans-serif" font-size="11" fill="#556">`+"\n", labelWidth+chartWidth+20, height)
	title := fmt.Sprintf("%s %s: %s", f.Verb, strings.Join(f.Target, " "), f.Outcome.sentence())
	fmt.Fprintf(&b, "<title>%s</title>\n<text x=\"8\" y=\"18\" font-size=\"13\">%s</text>\n", html.EscapeString(title),
		html.EscapeString(title))
	f.drawAxis(&b, end)
	for i, p := range f.Pods {
		p.draw(&b, chartTop+i*rowHeight, end)
	}
	if len(f.Capacity) > 0 {
		f.drawCapacity(&b, chartTop+rowHeight*len(f.Pods)+30, end)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
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

func (f *Forecast) drawAxis(b *strings.Builder, end time.Duration) {
	for i := range 9 {
		at := end * time.Duration(i) / 8
		fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#8888" stroke-width=".5"/>`, x(at, end),
			chartTop-8, x(at, end), chartTop+rowHeight*len(f.Pods))
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", x(at, end), chartTop-12, seconds(at))
	}
}

// draw draws one Pod's bar.
func (p Pod) draw(b *strings.Builder, y int, end time.Duration) {
	label := p.Key()
	if p.Node != "" {
		label += " on " + p.Node
	}
	fmt.Fprintf(b, `<text x="8" y="%d">%s</text>`, y+12, html.EscapeString(label))
	stages := []struct {
		from  *time.Duration
		color string
		name  string
	}{{p.Created, colorWaiting, "waits"}, {p.Scheduled, colorStarting, "starts"}, {p.Ready, colorReady, "is ready"},
		{p.Leaves, colorLeaving, "leaves"}}
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
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"><title>%s %s from %s to %s</title></rect>`,
			x(*s.from, end), y+2, max(x(until, end)-x(*s.from, end), 1), rowHeight-5, s.color,
			html.EscapeString(p.Key()), s.name, seconds(*s.from), seconds(until))
	}
	b.WriteByte('\n')
}

const capacityHeight = 100

// drawCapacity draws how many Pods there are, and how many of them are ready.
func (f *Forecast) drawCapacity(b *strings.Builder, y int, end time.Duration) {
	most := int32(1)
	for _, m := range f.Capacity {
		most = max(most, m.Total, m.Desired)
	}
	line := func(name, color string, of func(Capacity) int32) {
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
		fmt.Fprintf(b,
			`<polyline points="%s" fill="none" stroke="%s" stroke-width="2"><title>%s</title></polyline>`+"\n",
			strings.Join(points, " "), color, name)
	}
	fmt.Fprintf(b, `<text x="8" y="%d">Pods: ready (green), all (grey); at most %d</text>`+"\n", y+12, most)
	line("all Pods", colorWaiting, func(m Capacity) int32 { return m.Total })
	line("ready Pods", colorReady, func(m Capacity) int32 { return m.Ready })
}
