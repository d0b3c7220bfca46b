package nodepressure

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gantry-project/gantry/internal/svg"
)

// Sizes of the picture in pixels.
const (
	svgWidth, svgPlot, svgRow = 960, 180, 18
	svgLeft, svgTop           = 190, 40
)

// svgStyle are the colours of what is available, of thresholds, and of the moments of evictions.
const svgStyle = `path{fill:none} .axis{stroke:#888} .hard,.victim{stroke:#d3353c} .soft{stroke:#d98a00}
.hard,.soft{stroke-dasharray:4 3} polyline{fill:none;stroke:#2f81d8;stroke-width:2}
`

// WriteSVG draws each signal that has a threshold over time, with thresholds and victims, and the
// last order of the Pods.
func (r *Result) WriteSVG(w io.Writer) error {
	signals := r.drawn()
	var ranking []Place
	for _, l := range r.Passes {
		if len(l.Ranked) > 0 && ranking == nil {
			ranking = l.Ranked
		}
	}
	height := svgTop + len(signals)*(svgPlot+40) + (len(ranking)+2)*svgRow + 20
	d := svg.Picture{Title: strings.TrimSpace(r.summary()), Style: svgStyle}
	d.Text("t", 10, 20, d.Title)
	for i, s := range signals {
		r.plot(&d, s, svgTop+i*(svgPlot+40))
	}
	y := svgTop + len(signals)*(svgPlot+40) + svgRow
	if len(ranking) > 0 {
		d.Text("t", 10, y, "order at the first eviction")
	}
	for _, p := range ranking {
		y += svgRow
		d.Text("", 20, y, fmt.Sprintf("%d. %s  %s, priority %d, takes %s of %s: %s", p.Place, p.Pod, p.QOS, p.Priority,
			size(p.Use), size(p.Request), p.Why))
	}
	return d.Write(w, svgWidth, height)
}

// drawn are the signals that have thresholds.
func (r *Result) drawn() []string {
	var out []string
	for _, l := range r.Passes {
		for _, t := range l.Thresholds {
			if !slices.Contains(out, t.Signal) {
				out = append(out, t.Signal)
			}
		}
	}
	return out
}

// plot draws one signal: its amount, its thresholds and the Pods that went for it.
func (r *Result) plot(d *svg.Picture, signal string, top int) {
	end := max(time.Second, r.Passes[len(r.Passes)-1].At)
	most := int64(1)
	for _, l := range r.Passes {
		for _, s := range l.Signals {
			if s.Signal == signal {
				most = max(most, s.Available)
			}
		}
		for _, t := range l.Thresholds {
			if t.Signal == signal {
				most = max(most, t.Amount*5/4, t.Wants)
			}
		}
	}
	x := func(at time.Duration) int {
		return svgLeft + int(float64(svgWidth-svgLeft-30)*float64(at)/float64(end))
	}
	y := func(n int64) int { return top + svgPlot - int(float64(svgPlot-20)*float64(n)/float64(most)) }
	d.Add(`<g><title>%s</title>`, signal)
	d.Text("t", 10, top+12, signal)
	d.Text("q", 10, top+28, "most "+Amount(signal, most))
	d.Add(`<path class="axis" d="M%d %dV%dH%d"/>`, svgLeft, top, top+svgPlot, svgWidth-30)
	d.Text("q", svgWidth-60, top+svgPlot+14, end.String())
	for i, t := range r.Passes[0].Thresholds {
		if t.Signal != signal {
			continue
		}
		class, kind := "hard", "hard"
		if t.Grace > 0 {
			class, kind = "soft", "soft "+t.Grace.String()
		}
		d.Add(`<path class="%s" d="M%d %dH%d"/>`, class, svgLeft, y(t.Amount), svgWidth-30)
		d.Text("", 10, top+46+16*(i%8), fmt.Sprintf("%s (%s)", t.Value, kind))
	}
	var points []string
	for _, l := range r.Passes {
		for _, s := range l.Signals {
			if s.Signal == signal {
				points = append(points, fmt.Sprintf("%d,%d", x(l.At), y(s.Available)))
			}
		}
	}
	d.Add(`<polyline points="%s"/>`, strings.Join(points, " "))
	for _, v := range r.Victims() {
		if v.Signal == signal {
			d.Add(`<path class="victim" d="M%d %dV%d"/>`, x(v.At), top, top+svgPlot)
			d.Text("", x(v.At)+3, top+12, v.Pod)
		}
	}
	d.Add("</g>")
}
