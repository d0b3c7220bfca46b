package status

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/gantry-project/gantry/internal/svg"
)

var marks = map[Health]string{OK: "✓", Down: "✗", Unknown: "?"}

// WriteText prints the parts as a table, and below it who talks to whom.
func (m Map) WriteText(w io.Writer) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\tPART\tSTATE\tAGE\tVERSION\tLOAD\tBECAUSE\n")
	for _, p := range m.Parts {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", marks[p.Health], p.Name(), p.Health, orDash(age(p.Age)),
			orDash(p.Version), orDash(p.Load), p.Because)
	}
	_ = t.Flush() // to memory
	b.WriteString("\nWho talks to whom:\n")
	t = tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	for _, l := range m.Links {
		fmt.Fprintf(t, "%s\t%s\t→\t%s\t  %s\n", marks[l.Health], l.From, l.To, l.About)
	}
	_ = t.Flush()
	_, err := io.WriteString(w, b.String())
	return err
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Sizes of the drawing, in pixels.
const (
	boxWidth, boxHeight = 270, 84
	gapX, gapY, margin  = 40, 64, 20
)

// place is where each part is drawn: the store on top, then the API server, then who works for the
// whole cluster, then a column for each node.
func (m Map) place() (at map[string][2]int, width, height int) {
	at = map[string][2]int{}
	columns := map[string]int{}
	row := map[string]int{Kubelet: 3, Runtime: 4, Proxy: 5}
	central := []string{Scheduler, Controllers, DNS}
	for _, p := range m.Parts {
		if _, known := columns[p.Node]; !known && row[p.Kind] > 0 {
			columns[p.Node] = len(columns)
		}
	}
	n := max(len(columns), len(central))
	middle := (n - 1) * (boxWidth + gapX) / 2
	for _, p := range m.Parts {
		x, y := middle, 0
		switch p.Kind {
		case Etcd:
		case APIServer:
			y = 1
		case Scheduler, Controllers, DNS:
			y = 2
			for i, k := range central {
				if k == p.Kind {
					x = middle + (i-1)*(boxWidth+gapX)
				}
			}
		default:
			y = row[p.Kind]
			x = middle - (len(columns)-1)*(boxWidth+gapX)/2 + columns[p.Node]*(boxWidth+gapX)
		}
		at[p.Name()] = [2]int{margin + x, margin + y*(boxHeight+gapY)}
	}
	return at, 2*margin + n*boxWidth + (n-1)*gapX, 2*margin + 6*boxHeight + 5*gapY
}

// svgStyle are the colours of parts and of the lines between them, by their health.
const svgStyle = `rect{fill:#fff;stroke-width:2;rx:8} text{font-size:13px} text.q{font-size:12px}
line{stroke-width:2;fill:none} .ok{stroke:#1a7f4b} .down{stroke:#c0262d} .unknown{stroke:#8a8f98;stroke-dasharray:5 4}
@media (prefers-color-scheme:dark){rect{fill:#181c22}}
`

// WriteSVG draws the map.
func (m Map) WriteSVG(w io.Writer) error {
	at, width, height := m.place()
	d := svg.Picture{Title: "The parts of " + m.Server, Style: svgStyle}
	for _, l := range m.Links {
		a, z := at[l.From], at[l.To]
		d.Add(`<line class="%s" x1="%d" y1="%d" x2="%d" y2="%d"><title>%s</title></line>`, string(l.Health),
			a[0]+boxWidth/2, a[1]+boxHeight/2, z[0]+boxWidth/2, z[1]+boxHeight/2,
			l.From+" → "+l.To+": "+l.About+" ("+string(l.Health)+")")
	}
	for _, p := range m.Parts {
		x, y := at[p.Name()][0], at[p.Name()][1]
		d.Rect(svg.Rect{X: x, Y: y, Width: boxWidth, Height: boxHeight, Class: string(p.Health), Title: p.Because})
		lines := []string{marks[p.Health] + " " + p.Name(), strings.TrimSpace(strings.Join([]string{string(p.Health),
			p.Version, age(p.Age)}, " ")), p.Load, p.Because}
		for i, text := range lines {
			class := "q"
			if i == 0 {
				class = "t"
			}
			d.Text(class, x+10, y+20+18*i, svg.Shorten(text, 38))
		}
	}
	return d.Write(w, width, height)
}
