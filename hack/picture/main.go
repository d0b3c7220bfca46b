// Command picture draws what a terminal showed: docs/images/NAME.txt becomes docs/images/NAME.svg.
//
// The texts are output of gantry why and gantry trace, shortened: … stands for lines left out. A
// line that begins with "$ " is what was typed. Run it as `go run ./hack/picture` after a text has
// changed.
package main

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Measures of the picture, in pixels. A monospace letter is some six tenths as wide as it is high.
const (
	fontSize, lineHeight = 13, 18
	margin, titleBar     = 16, 30
	letterWidth          = 7.85
)

// Colours of a dark terminal, readable on light and dark pages.
const (
	ground, bar, text   = "#0d1117", "#161b22", "#c9d1d9"
	typed, remedy, rest = "#7ee787", "#79c0ff", "#8b949e"
)

const fonts = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"

func main() {
	texts, err := filepath.Glob("docs/images/*.txt")
	if err == nil && len(texts) == 0 {
		err = fmt.Errorf("docs/images has no texts: run it at the top of the repository")
	}
	for _, path := range texts {
		if err == nil {
			err = drawFile(path)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func drawFile(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	return os.WriteFile(strings.TrimSuffix(path, ".txt")+".svg", []byte(draw(lines)), 0o644)
}

// draw renders lines of text as SVG.
func draw(lines []string) string {
	columns := 0
	for _, l := range lines {
		columns = max(columns, utf8.RuneCountInString(l))
	}
	width, height := int(float64(columns)*letterWidth)+2*margin, len(lines)*lineHeight+titleBar+margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" role="img">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", ground)
	fmt.Fprintf(&b, `<path d="M0 8a8 8 0 0 1 8-8h%da8 8 0 0 1 8 8v%dH0z" fill="%s"/>`+"\n", width-16, titleBar-14, bar)
	for i, colour := range []string{"#ff5f56", "#ffbd2e", "#27c93f"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="12" r="5" fill="%s"/>`+"\n", 18+i*18, colour)
	}
	fmt.Fprintf(&b, `<g font-family="%s" font-size="%d" xml:space="preserve">`+"\n", fonts, fontSize)
	for i, l := range lines {
		y := titleBar + (i+1)*lineHeight - 4
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", margin, y, colourOf(l), html.EscapeString(l))
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}

// colourOf returns a line's colour: typed lines, remedies and asides differ.
func colourOf(line string) string {
	switch l := strings.TrimSpace(line); {
	case strings.HasPrefix(line, "$ "):
		return typed
	case strings.HasPrefix(l, "→"):
		return remedy
	case strings.HasPrefix(l, "·"), strings.HasPrefix(l, "$ "), l == "…":
		return rest
	}
	return text
}
