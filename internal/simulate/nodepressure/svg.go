package nodepressure

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"time"
)

// Sizes of the picture in pixels.
const (
	svgWidth, svgPlot, svgRow = 960, 180, 18
	svgLeft, svgTop           = 190, 40
)

// WriteSVG draws each signal that has a threshold over time, with thresholds and victims, and the
// last order of the Pods.
func (r *Result) WriteSVG(w io.Writer) error {
	var b strings.Builder
	signals := r.drawn()
	var ranking []Place
	for _, l := range r.Passes {
		if len(l.Ranked) > 0 && ranking == nil {
			ranking = l.Ranked
		}
	}
	height := svgTop + len(signals)*(svgPlot+40) + (len(ranking)+2)*svgRow + 20
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" role="img" font-family="sans-serif" `+
			`font-size="12">`+"\n", svgWidth, height)
	b.WriteString("<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n")
	svgText(&b, 10, 20, strings.TrimSpace(r.summary()))
	for i, s := range signals {
		r.plot(&b, s, svgTop+i*(svgPlot+40))
	}
	y := svgTop + len(signals)*(svgPlot+40) + svgRow
	if len(ranking) > 0 {
		svgText(&b, 10, y, "order at the first eviction")
	}
	for _, p := range ranking {
		y += svgRow
		svgText(&b, 20, y, fmt.Sprintf("%d. %s  %s, priority %d, takes %s of %s: %s", p.Place, p.Pod, p.QOS, p.Priority,
			size(p.Use), size(p.Request), p.Why))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
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

func svgText(b *strings.Builder, x, y int, text string) {
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", x, y, html.EscapeString(text))
}

// plot draws one signal: its amount, its thresholds and the Pods that went for it.
func (r *Result) plot(b *strings.Builder, signal string, top int) {
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
	fmt.Fprintf(b, `<g><title>%s</title>`+"\n", html.EscapeString(signal))
	svgText(b, 10, top+12, signal)
	svgText(b, 10, top+28, "most "+Amount(signal, most))
	fmt.Fprintf(b, `<path d="M%d %dV%dH%d" fill="none" stroke="#888888"/>`+"\n", svgLeft, top, top+svgPlot, svgWidth-30)
	svgText(b, svgWidth-60, top+svgPlot+14, end.String())
	for i, t := range r.Passes[0].Thresholds {
		if t.Signal != signal {
			continue
		}
		colour, kind := "#cc0000", "hard"
		if t.Grace > 0 {
			colour, kind = "#dd8800", "soft "+t.Grace.String()
		}
		fmt.Fprintf(b, `<path d="M%d %dH%d" stroke="%s" stroke-dasharray="4 3"/>`+"\n", svgLeft, y(t.Amount),
			svgWidth-30, colour)
		svgText(b, 10, top+46+16*(i%8), fmt.Sprintf("%s (%s)", t.Value, kind))
	}
	var points []string
	for _, l := range r.Passes {
		for _, s := range l.Signals {
			if s.Signal == signal {
				points = append(points, fmt.Sprintf("%d,%d", x(l.At), y(s.Available)))
			}
		}
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="#0055aa" stroke-width="2"/>`+"\n",
		strings.Join(points, " "))
	for _, v := range r.Victims() {
		if v.Signal == signal {
			fmt.Fprintf(b, `<path d="M%d %dV%d" stroke="#cc0000"/>`+"\n", x(v.At), top, top+svgPlot)
			svgText(b, x(v.At)+3, top+12, v.Pod)
		}
	}
	b.WriteString("</g>\n")
}
