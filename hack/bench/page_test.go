package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/trace"
)

// A page keeps what was not measured again, and the scheduler's section stays the last.
func TestPageKeepsOtherSections(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	write := func(titles ...string) string {
		var p page
		for _, title := range titles {
			p.add(section{Title: title, How: "How of " + title + ".", Budget: "none", Head: []string{"a"}, Rows: [][]string{{"new"}}})
		}
		if err := p.write(file); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	headings := func(page string) string {
		var out []string
		for _, l := range strings.Split(page, "\n") {
			if h, ok := strings.CutPrefix(l, "## "); ok {
				out = append(out, h)
			}
		}
		return strings.Join(out, ", ")
	}
	if got := headings(write("Starting", "Writes")); got != "Starting, Writes" {
		t.Error(got)
	}
	old := introduction + "\n## Starting\n\nold start\n\n## Found\n\nby hand\n\n## Writes\n\nold writes\n\n## Scheduler\n\nfigures\n\n## After\n\nit\n"
	if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	got := write("Writes", "Names")
	if headings(got) != "Starting, Found, Writes, Names, Scheduler, After" {
		t.Error(headings(got))
	}
	for _, want := range []string{"old start\n\n## Found\n\nby hand\n\n## Writes\n\n| a |", "How of Names.\n\n## Scheduler\n\nfigures\n\n## After\n\nit\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "old writes") || write("Writes", "Names") != got {
		t.Errorf("written again it is\n%s", got)
	}
}

// Counts of calls are read from the kubelet's metrics and shown for each Pod.
func TestCountsOfCalls(t *testing.T) {
	before := readCounts("# HELP x\nkubelet_runtime_operations_total{operation_type=\"status\"} 3\nkubelet_runtime_operations_total{operation_type=\"run_podsandbox\"} 1\n")
	after := readCounts("kubelet_runtime_operations_total{operation_type=\"status\"} 9\nkubelet_runtime_operations_total{operation_type=\"run_podsandbox\"} 3\nkubelet_runtime_operations_total{operation_type=\"start_container\"} 1\n")
	sum := counts{}
	sum.grown(before, after)
	if got := strings.Join(sum.row("start", 2, ofNode...), "; "); got != "start; 1.5; run_podsandbox 1.0, start_container 0.5" {
		t.Error(got)
	}
}

// Stages end where the next begin; calls and the store's writes that hold something up are told apart from the rest.
func TestStages(t *testing.T) {
	begun := time.Now()
	at := func(n int) time.Time { return begun.Add(time.Duration(n) * time.Millisecond) }
	took := func(n int) journal.Took { return journal.Took(time.Duration(n) * time.Millisecond) }
	e := func(n int, f journal.Fact) journal.Entry {
		return journal.Entry{At: at(n), Ref: journal.Ref{Name: "p"}, Fact: f}
	}
	l := trace.Lives([]journal.Entry{
		e(5, journal.Written{Verb: "create", Stored: took(3)}),
		e(9, journal.Written{Verb: "create", Subresource: "binding", Stored: took(2)}),
		e(12, journal.Called{Method: "List", Took: took(2)}),
		e(20, journal.Written{Verb: "patch", Subresource: "status", Stored: took(9)}), // tells others, holds up nothing
		e(115, journal.Called{Method: "RunPodSandbox", Took: took(100)}),
		e(215, journal.Called{Method: "StartContainer", Took: took(90)}),
		e(222, journal.Written{Verb: "patch", Subresource: "status", Stored: took(4), Changed: []string{"status.phase"}}),
	})[0]
	parts, err := startStages(l, at(0), at(223))
	if err != nil {
		t.Fatal(err)
	}
	want := [][3]int{{0, 5, 3}, {0, 4, 2}, {2, 4, 0}, {190, 10, 0}, {0, 8, 4}}
	for i, p := range parts {
		if got := [3]int{int(p.calls.Milliseconds()), int(p.own.Milliseconds()), int(p.store.Milliseconds())}; got != want[i] {
			t.Errorf("%s: calls, own, store %v ms, want %v", p.stage, got, want[i])
		}
	}
	if total := sum(parts); total.calls+total.own != 223*time.Millisecond {
		t.Errorf("the stages make %s, not the whole start", total.calls+total.own)
	}
	if _, err := endStages(l, at(0), at(1)); err == nil {
		t.Error("a Pod that has not ended has stages of its end")
	}
}

// After a watch that was ended a list tells what it would have brought.
func TestSightingsSurviveTheEndOfAWatch(t *testing.T) {
	l := &sightings{news: make(chan struct{}), when: [3]map[string]time.Time{{}, {}, {}}}
	pod := func(name string) v1.Pod {
		return v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.PodStatus{Phase: v1.PodRunning}}
	}
	begun := time.Now()
	a := pod("a")
	l.note(&a, false, begun)
	l.missed([]v1.Pod{pod("b")}, begun.Add(time.Second))
	if at := l.at("a", gone); !at.Equal(begun.Add(time.Second)) || !l.at("a", running).Equal(begun) {
		t.Errorf("a ran at %s and was gone at %s", l.at("a", running), at)
	}
	if l.at("b", running).IsZero() || !l.at("b", gone).IsZero() {
		t.Error("b, which is there and runs, was not seen so")
	}
}

// The four figures that the documents state are read from the journal and said to pass or to fail.
//
// row: API-18
// row: OPS-08
func TestPromises(t *testing.T) {
	asked := time.Now()
	at := func(n int) time.Time { return asked.Add(time.Duration(n) * time.Millisecond) }
	e := func(n int, f journal.Fact) journal.Entry {
		return journal.Entry{At: at(n), Ref: journal.Ref{Name: "p"}, Fact: f}
	}
	entries := []journal.Entry{
		e(5, journal.Written{Verb: "create"}),
		e(7, journal.Queued{Queue: "gated", Cause: "PodAdd"}),
		e(9, journal.Queued{Queue: "active", Cause: "PodAdd"}),
		e(12, journal.Ruled{Took: journal.Took(2 * time.Millisecond)}),
		e(40, journal.Bound{Node: "n"}),
	}
	got, err := noticingOf(trace.Lives(entries)[0], asked)
	if want := (noticing{9 * time.Millisecond, 2 * time.Millisecond, 31 * time.Millisecond}); err != nil || got != want {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if _, err := noticingOf(trace.Lives(entries[:3])[0], asked); err == nil {
		t.Error("a Pod that was not scheduled has figures of it")
	}
	for took, want := range map[time.Duration]string{49 * time.Millisecond: "pass", 50 * time.Millisecond: "fail", 0: "fail"} {
		p := promise{what: "it", under: 50 * time.Millisecond}
		if took > 0 {
			p.took = []time.Duration{time.Millisecond, took}
		}
		if row := p.row(); row[len(row)-1] != want {
			t.Errorf("%s under 50 ms: %v, want %s", took, row, want)
		}
	}
}
