package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/trace"
)

// Calls are parsed from the kubelet's metrics and divided by the number of Pods.
func TestCountsOfCalls(t *testing.T) {
	line := func(operation string, n int) string {
		return fmt.Sprintf("kubelet_runtime_operations_total{operation_type=%q} %d\n", operation, n)
	}
	before := readCounts("# HELP x\n" + line("status", 3) + line("run_podsandbox", 1))
	after := readCounts(line("status", 9) + line("run_podsandbox", 3) + line("start_container", 1))
	sum := counts{}
	sum.grown(before, after)
	var got []string
	for _, f := range sum.figures("start", 2, ofNode...) {
		got = append(got, fmt.Sprint(f.Name, " ", *f.Value))
	}
	want := []string{"start 1.5", "start/run_podsandbox 1", "start/start_container 0.5"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Stages end where the next begin; calls, and writes that later steps wait for, are separated from
// the rest.
func TestStages(t *testing.T) {
	start := time.Now()
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Millisecond) }
	took := func(n int) journal.Took { return journal.Took(time.Duration(n) * time.Millisecond) }
	e := func(n int, f journal.Fact) journal.Entry {
		return journal.Entry{At: at(n), Ref: journal.Ref{Name: "p"}, Fact: f}
	}
	l := trace.PodTraces([]journal.Entry{
		e(5, journal.Written{Verb: "create", Stored: took(3)}),
		e(9, journal.Written{Verb: "create", Subresource: "binding", Stored: took(2)}),
		e(12, journal.Called{Method: "List", Took: took(2)}),
		e(20, journal.Written{Verb: "patch", Subresource: "status", Stored: took(9)}), // no later step waits for it
		e(115, journal.Called{Method: "RunPodSandbox", Took: took(100)}),
		e(215, journal.Called{Method: "StartContainer", Took: took(90)}),
		e(222, journal.Written{Verb: "patch", Subresource: "status", Stored: took(4),
			Changed: []string{"status.phase"}}),
	})[0]
	parts, err := startStages(l, at(0), at(223))
	if err != nil {
		t.Fatal(err)
	}
	want := [][3]int{{0, 5, 3}, {0, 4, 2}, {2, 4, 0}, {190, 10, 0}, {0, 8, 4}}
	for i, p := range parts {
		got := [3]int{int(p.calls.Milliseconds()), int(p.own.Milliseconds()), int(p.store.Milliseconds())}
		if got != want[i] {
			t.Errorf("%s: calls, own, store: got %v ms, want %v", p.name, got, want[i])
		}
	}
	if total := sum(parts); total.calls+total.own != 223*time.Millisecond {
		t.Errorf("all stages: got %s, want the whole start, 223ms", total.calls+total.own)
	}
	if _, err := endStages(l, at(0), at(1)); err == nil {
		t.Error("got stages of the end of a Pod that has not ended, want an error")
	}
}

// After a watch has ended a list shows what it would have sent.
func TestPodEventsSurviveTheEndOfAWatch(t *testing.T) {
	l := &podEvents{changed: make(chan struct{}), when: [3]map[string]time.Time{{}, {}, {}}}
	pod := func(name string) v1.Pod {
		return v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.PodStatus{Phase: v1.PodRunning}}
	}
	start := time.Now()
	a := pod("a")
	l.note(&a, false, start)
	l.missed([]v1.Pod{pod("b")}, start.Add(time.Second))
	if at := l.at("a", gone); !at.Equal(start.Add(time.Second)) || !l.at("a", running).Equal(start) {
		t.Errorf("got a running at %s, gone at %s, want %s and a second later", l.at("a", running), at, start)
	}
	if l.at("b", running).IsZero() || !l.at("b", gone).IsZero() {
		t.Errorf("got b running at %s, gone at %s, want it running and not gone", l.at("b", running), l.at("b", gone))
	}
}

// The latencies that Kubernetes documents for a healthy cluster are read from the journal. Their
// bounds are rows of the page.
//
// row: API-18
// row: OPS-08
func TestDocumentedLatencies(t *testing.T) {
	called := time.Now()
	at := func(n int) time.Time { return called.Add(time.Duration(n) * time.Millisecond) }
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
	got, err := scheduledOf(trace.PodTraces(entries)[0], called)
	if want := (scheduled{9 * time.Millisecond, 2 * time.Millisecond, 31 * time.Millisecond}); err != nil ||
		got != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if _, err := scheduledOf(trace.PodTraces(entries[:3])[0], called); err == nil {
		t.Error("got figures of a Pod that was not scheduled, want an error")
	}
}
