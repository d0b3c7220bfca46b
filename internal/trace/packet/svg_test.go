package packet

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// The picture has each step with its state, those of an endpoint below its name, and is XML.
func TestSVG(t *testing.T) {
	r := Result{From: "pod/a", To: "service/b:80", Protocol: "tcp", Outcome: SometimesDelivered,
		Cause: "one <end> refuses",
		Steps: []Step{{Name: "rule", State: OK, Text: "1 of 2"},
			{Name: "socket", State: Failed, Text: "nobody listens", Endpoint: "10.0.0.1:8080"},
			{Name: "socket", State: Uncertain, Text: "not read", Endpoint: "10.0.0.2:8080"}}}
	var out bytes.Buffer
	if err := r.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for d := xml.NewDecoder(&out); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"tcp from pod/a to service/b:80: sometimes", "one &lt;end&gt; refuses", ">rule<",
		"✓",
		"×",
		"?<", "endpoint 10.0.0.1:8080", "nobody listens"} {
		if !strings.Contains(text, want) {
			t.Errorf("got %s, want it to have %q", text, want)
		}
	}
}
