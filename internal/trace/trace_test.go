package trace

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-project/gantry/internal/journal"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata")

// sampleTrace is a Pod that was created, placed, started, became ready, was deleted and removed.
func sampleTrace(uid string, start time.Time) []journal.Entry {
	ref := journal.Ref{Namespace: "default", Name: "web", UID: uid}
	ms := func(n int) time.Time { return start.Add(time.Duration(n) * time.Millisecond) }
	took := func(n int) journal.Took { return journal.Took(time.Duration(n) * time.Millisecond) }
	e := func(at int, by string, f journal.Fact) journal.Entry {
		return journal.Entry{At: ms(at), Ref: ref, By: by, Fact: f}
	}
	return []journal.Entry{
		e(2, "apiserver", journal.Written{Verb: "create", User: "admin", Revision: 10, Took: took(2)}),
		e(3, "scheduler", journal.Queued{Queue: "active", Cause: "PodAdd"}),
		e(5, "scheduler", journal.Ruled{Attempt: 1, Winner: "n1", Nodes: 1,
			Scores: []journal.NodeScore{{Node: "n1", Total: 7}}, Took: took(1),
			Points: map[string]journal.Took{"Filter": took(1)}}),
		e(8, "scheduler", journal.Bound{Node: "n1", Took: took(5)}),
		e(9, "kubelet", journal.Accepted{Source: "api"}),
		e(100, "kubelet", journal.Called{Service: "CRI", Method: "RunPodSandbox", Took: took(80)}),
		e(160, "kubelet", journal.Called{Service: "CRI", Method: "StartContainer", Target: "app", Took: took(50)}),
		e(161, "kubelet", journal.ContainerStarted{Container: "app", ID: "c1"}),
		e(163, "kubelet", journal.PhaseChanged{Phase: "Running"}),
		e(170, "kubelet", journal.ConditionChanged{Type: "Ready", Status: "True"}),
		e(5000, "apiserver", journal.Deleting{User: "admin", Grace: 30}),
		e(5060, "kubelet", journal.Called{Service: "CRI", Method: "StopContainer", Target: "app", Took: took(50)}),
		e(5090, "kubelet", journal.Released{}),
		e(5100, "apiserver", journal.Removed{Revision: 20}),
	}
}

// row: OPS-13
func TestTraceOfALife(t *testing.T) {
	podTraces := PodTraces(sampleTrace("u1", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	if len(podTraces) != 1 {
		t.Fatalf("want one life, have %d", len(podTraces))
	}
	var b strings.Builder
	if err := podTraces[0].WriteTimeline(&b); err != nil {
		t.Fatal(err)
	}
	b.WriteString("----\n")
	if err := podTraces[0].WriteTree(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "life.txt", b.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (`make stories` rewrites it):\n%s", path, diff)
	}
}

func TestRecreatedPodHasItsOwnTrace(t *testing.T) {
	now := time.Now()
	podTraces := PodTraces(append(sampleTrace("u1", now), sampleTrace("u2", now.Add(time.Minute))...))
	if len(podTraces) != 2 || podTraces[0].Ref.UID != "u1" || podTraces[1].Ref.UID != "u2" {
		t.Fatalf("lives mixed: got %+v, want 2 of them and [0].Ref.UID u1 and [1].Ref.UID u2", podTraces)
	}
	if podTraces[1].Partial || len(podTraces[1].Entries) != len(sampleTrace("", now)) {
		t.Fatalf("second life incomplete: %d entries", len(podTraces[1].Entries))
	}
}

func TestDroppedFirstFactsAreNamed(t *testing.T) {
	podTraces := PodTraces(sampleTrace("u1", time.Now())[4:])
	if !podTraces[0].Partial {
		t.Fatal("a life without its creation passes as whole")
	}
}

// Time in the store counts only where later steps depend on it and no call covers it.
func TestWaitsForTheStore(t *testing.T) {
	start := time.Now()
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Millisecond) }
	took := func(n int) journal.Took { return journal.Took(time.Duration(n) * time.Millisecond) }
	l := PodTrace{Entries: []journal.Entry{
		{At: at(10), Fact: journal.Written{Verb: "create", Stored: took(4)}},
		{At: at(50), Fact: journal.Called{Service: "CRI", Method: "RunPodSandbox", Took: took(30)}},
		{At: at(52), Fact: journal.Written{Verb: "patch", Stored: took(5)}},
		{At: at(60), Fact: journal.Written{Verb: "update", Stored: took(3)}},
		{At: at(70), Fact: journal.Removed{Stored: took(6)}},
	}}
	leads := func(f journal.Fact) bool { w, ok := f.(journal.Written); return !ok || w.Verb != "update" }
	for _, c := range []struct{ from, to, calls, store int }{
		{0, 100, 30, 4 + 2 + 6}, // of the patch 3 ms lie in the call; the update leads to nothing
		{8, 15, 0, 2},
		{30, 51, 20, 1},
	} {
		calls, store := l.InCalls(at(c.from), at(c.to)), l.InStore(at(c.from), at(c.to), leads)
		if calls != time.Duration(took(c.calls)) || store != time.Duration(took(c.store)) {
			t.Errorf("from %d to %d ms: %s in calls and %s in the store, want %d and %d ms", c.from, c.to, calls, store,
				c.calls, c.store)
		}
	}
}

// The picture is well-formed whatever messages hold, and has a row for each span.
func TestPictureOfALife(t *testing.T) {
	entries := sampleTrace("u1", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	entries = append(entries, journal.Entry{At: entries[len(entries)-1].At, By: "kubelet",
		Fact: journal.Called{Service: "CRI", Method: `<script>&"`, Error: "no & more"}})
	l := PodTraces(entries)[0]
	var b strings.Builder
	if err := l.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	bars := 0
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("got %v\n%s", err, b.String())
		}
		switch e, _ := token.(xml.StartElement); e.Name.Local {
		case "rect":
			bars++
		case "script":
			t.Error("a message became an element")
		}
	}
	if want := len(waterfall(l.Spans, 0)); bars != want || want < 8 {
		t.Errorf("%d bars are drawn, want %d", bars, want)
	}
}
