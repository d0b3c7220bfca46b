package packet

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
)

// Sizes of the picture, in pixels, and the letters of a line.
const (
	svgWidth, svgMargin, svgStep, svgLetters = 900, 16, 40, 130
)

const svgStyle = `<style>
text{font:12px system-ui,sans-serif;fill:#16191d} .t{font-size:14px;font-weight:600} .q{fill:#545c66}
line{stroke:#8a94a0}
.passes{fill:#1a7f4b} .fails{fill:#c0262d} .unknown{fill:#9a5b00} .m{fill:#fff;font-weight:700}
@media (prefers-color-scheme:dark){text{fill:#e8ebef} .q{fill:#a5afba}}
</style>
`

// WriteSVG draws the steps of the packet: those that all take, then those of each endpoint.
func (r Result) WriteSVG(w io.Writer) error {
	var b strings.Builder
	y := svgMargin + 14
	line := func(class string, x int, text string) {
		if letters := []rune(text); len(letters) > svgLetters {
			text = string(letters[:svgLetters-1]) + "…"
		}
		fmt.Fprintf(&b, `<text class="%s" x="%d" y="%d">%s</text>`+"\n", class, x, y, html.EscapeString(text))
	}
	title := fmt.Sprintf("%s from %s to %s: %s", r.Protocol, r.From, r.To, r.Outcome)
	line("t", svgMargin, title)
	y += 20
	line("q", svgMargin, r.Cause)
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
			line("t", x-12, "endpoint "+end)
		}
		first := true
		for _, s := range r.Steps {
			if s.Endpoint != end {
				continue
			}
			y += svgStep
			if !first {
				fmt.Fprintf(&b, `<line x1="%d" y1="%d" x2="%d" y2="%d"/>`, x, y-svgStep+6, x, y-16)
			}
			first = false
			class, mark := "passes", "✓"
			switch s.State {
			case Failed:
				class, mark = "fails", "×"
			case Uncertain:
				class, mark = "unknown", "?"
			}
			fmt.Fprintf(&b, `<circle class="%s" cx="%d" cy="%d" r="9"/>`+
				`<text class="m" x="%d" y="%d" text-anchor="middle">%s</text>`, class, x, y-5, x, y-1, mark)
			line("t", x+18, s.Name)
			y += 15
			line("q", x+18, s.Text)
			y -= 15
		}
		y += 15
	}
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" `+
		`role="img" aria-label="%s">`+"\n%s%s</svg>\n", svgWidth, y+svgMargin, svgWidth, y+svgMargin,
		html.EscapeString(title), svgStyle, b.String())
	return err
}
