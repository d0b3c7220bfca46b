package blocks

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// The picture has each node with its bars and each Pod as a block of its state, and is XML.
func TestSVG(t *testing.T) {
	p := Picture{Nodes: []Node{{Name: "b", CPU: 4000, Memory: 8 << 30, Ready: true},
		{Name: "a", CPU: 2000, Memory: 1 << 30}},
		Pods: []Pod{{Namespace: "d", Name: "x", Node: "b", State: Ready, CPU: 1500, Memory: 1 << 30},
			{Namespace: "d", Name: "done", Node: "b", State: Succeeded, CPU: 900},
			{Namespace: "d", Name: "y", State: Unscheduled, WaitsFor: "cpu <2>"}},
		Used: map[string]Used{"b": {CPU: 1000, Memory: 2 << 30}}}
	var out strings.Builder
	if err := p.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(out.String())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"2 nodes, 3 Pods", "1 ready", "No node yet: 1",
		"d/y: unscheduled, waits for cpu &lt;2&gt;",
		"a, not ready", "cores 1500m of 4", "memory 1.0Gi of 8.0Gi"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %s, want it to have %q", out.String(), want)
		}
	}
	if strings.Count(out.String(), `class="used"`) != 2 {
		t.Errorf("got %s, want two bars of what b uses, none of a", out.String())
	}
}
