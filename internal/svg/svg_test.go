package svg

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// What objects are called cannot break out of the text that shows it: the document is well formed
// and has no element that nobody drew.
func TestTextsAreEscaped(t *testing.T) {
	const bad = `"><script>alert(1)</script>&`
	p := Picture{Title: bad, Style: ".x{fill:red}\n"}
	p.Text("", 1, 2, bad)
	p.Text(bad, 1, 2, bad)
	p.Rect(Rect{1, 2, 3, 4, "x", bad})
	p.Rect(Rect{1, 2, 3, 4, "x", ""})
	p.Line(1, 2, 3, 4)
	p.Add(`<g><title>%s</title></g>`, bad)
	var out bytes.Buffer
	if err := p.Write(&out, 10, 20); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for d := xml.NewDecoder(&out); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("got error %v, want a well-formed document", err)
		}
		if e, ok := token.(xml.StartElement); ok {
			seen[e.Name.Local]++
		}
	}
	for name, want := range map[string]int{"svg": 1, "style": 1, "text": 2, "rect": 2, "line": 1, "g": 1, "title": 2,
		"script": 0} {
		if got := seen[name]; got != want {
			t.Errorf("%s: got %d elements, want %d", name, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		s    string
		most int
		want string
	}{{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöüß", 3, "äö…"}, {"ab", 0, "…"}} {
		if got := Shorten(c.s, c.most); got != c.want {
			t.Errorf("%q in %d: got %q, want %q", c.s, c.most, got, c.want)
		}
	}
	if got := len([]rune(Shorten(strings.Repeat("é", 100), 7))); got != 7 {
		t.Errorf("got %d letters, want 7", got)
	}
}
