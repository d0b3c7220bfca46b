// Package svg draws the pictures that commands print with -o svg. A picture needs no file beside it
// and is light or dark as its viewer wants.
//
// In: elements with their places in pixels. Out: one SVG document, with every text escaped.
package svg

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// style is what all pictures share: text, t for titles, q for what is said quietly, ok and no for
// good and bad.
const style = `text{font:12px system-ui,sans-serif;fill:#16191d} .t{font-size:14px;font-weight:600}
text.q{fill:#545c66} line{stroke:#d5d9df} text.ok{fill:#1a7f4b} text.no{fill:#c0262d;font-weight:600}
@media (prefers-color-scheme:dark){text{fill:#e8ebef} text.q{fill:#a5afba} line{stroke:#343b45}
text.ok{fill:#56c98a} text.no{fill:#ff7b80}}
`

// Picture collects what is drawn. It belongs to one goroutine.
type Picture struct {
	Title string // what the picture shows, for those who do not see it
	Style string // rules of CSS beside those that all pictures share

	body strings.Builder
}

// Rect is a rectangle. Its colours are its class's; a title is shown when somebody points at it.
type Rect struct {
	X, Y, Width, Height int
	Class, Title        string
}

// Add adds elements. Arguments that are strings are escaped.
func (p *Picture) Add(format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = html.EscapeString(s)
		}
	}
	fmt.Fprintf(&p.body, format+"\n", args...)
}

// Text adds a text that begins at x, with its foot at y; the class may be empty.
func (p *Picture) Text(class string, x, y int, text string) {
	if class == "" {
		p.Add(`<text x="%d" y="%d">%s</text>`, x, y, text)
		return
	}
	p.Add(`<text class="%s" x="%d" y="%d">%s</text>`, class, x, y, text)
}

// Line adds a line between two points.
func (p *Picture) Line(x1, y1, x2, y2 int) {
	p.Add(`<line x1="%d" y1="%d" x2="%d" y2="%d"/>`, x1, y1, x2, y2)
}

// Rect adds a rectangle.
func (p *Picture) Rect(r Rect) {
	if r.Title == "" {
		p.Add(`<rect class="%s" x="%d" y="%d" width="%d" height="%d"/>`, r.Class, r.X, r.Y, r.Width, r.Height)
		return
	}
	p.Add(`<rect class="%s" x="%d" y="%d" width="%d" height="%d"><title>%s</title></rect>`, r.Class, r.X, r.Y,
		r.Width, r.Height, r.Title)
}

// Write writes the document, of this size.
func (p *Picture) Write(w io.Writer, width, height int) error {
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" `+
		`role="img" aria-label="%s">`+"\n<style>\n%s%s</style>\n%s</svg>\n", width, height, width, height,
		html.EscapeString(p.Title), style, p.Style, p.body.String())
	return err
}

// Shorten is s with at most so many letters; the last of a text that is cut is an ellipsis.
func Shorten(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:max(most, 1)-1]) + "…"
	}
	return s
}
