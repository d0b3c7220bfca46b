package trace

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/journal"
)

// The board has each node with its points or its refusal, and is well-formed whatever they say.
func TestBoardSVG(t *testing.T) {
	r := journal.Ruled{Attempt: 2, Profile: "default-scheduler", Nodes: 3, Winner: "a",
		Sample:   journal.Sample{Visited: 3},
		Refusals: []journal.NodeRefusal{{Node: "c", Plugin: "NodeResourcesFit", Detail: "asks cpu 2, <1 left>"}},
		Scores: []journal.NodeScore{
			{Node: "b", Total: 100, Parts: []journal.PluginScore{{Plugin: "ImageLocality", Weight: 1, Weighted: 100}}},
			{Node: "a", Total: 190, Parts: []journal.PluginScore{{Plugin: "ImageLocality", Weight: 1, Weighted: 190}}}},
		Counted: []journal.CountedRefusal{{Plugin: "TaintToleration", Messages: []string{"tainted"}, Nodes: 40}}}
	var out bytes.Buffer
	if err := WriteBoardSVG(&out, "pod/web is Running", r); err != nil {
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
	for _, want := range []string{"pod/web is Running", "a won; 3 of 3 nodes were looked at", "ImageLocality ×1",
		">NodeResourcesFit<", "asks cpu 2, &lt;1 left&gt;", "40 more nodes", ">190<"} {
		if !strings.Contains(text, want) {
			t.Errorf("got %s, want it to have %q", text, want)
		}
	}
	if strings.Index(text, ">a<") > strings.Index(text, ">b<") {
		t.Errorf("got b before a, want the winner first")
	}
}
