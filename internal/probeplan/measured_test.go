package probeplan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/probeplan"
)

const histogram = `# TYPE prober_probe_duration_seconds histogram
prober_probe_duration_seconds_bucket{container="web",namespace="shop",pod="a",probe_type="Readiness",le="0.1"} 940
prober_probe_duration_seconds_bucket{container="web",namespace="shop",pod="a",probe_type="Readiness",le="0.25"} 985
prober_probe_duration_seconds_bucket{container="web",namespace="shop",pod="a",probe_type="Readiness",le="0.5"} 991
prober_probe_duration_seconds_bucket{container="web",namespace="shop",pod="a",probe_type="Readiness",le="+Inf"} 1000
prober_probe_duration_seconds_sum{container="web",namespace="shop",pod="a",probe_type="Readiness"} 90
prober_probe_duration_seconds_count{container="web",namespace="shop",pod="a",probe_type="Readiness"} 1000
prober_probe_duration_seconds_bucket{container="web",namespace="shop",pod="b",probe_type="Readiness",le="0.1"} 0
prober_probe_duration_seconds_bucket{container="web",namespace="shop",pod="b",probe_type="Readiness",le="+Inf"} 9000
prober_probe_duration_seconds_sum{container="web",namespace="shop",pod="b",probe_type="Readiness"} 9000
prober_probe_duration_seconds_count{container="web",namespace="shop",pod="b",probe_type="Readiness"} 9000
`

// row: TOO-07
func TestMeasuredAnswers(t *testing.T) {
	m := probeplan.Measured{Container: "web"}
	if err := m.ReadAnswers("a", "shop", strings.NewReader(histogram)); err != nil {
		t.Fatal(err)
	}
	if m.Answers != 1000 || m.P95 != 250*time.Millisecond || m.P99 != 500*time.Millisecond {
		t.Errorf("got %+v", m)
	}
	other := probeplan.Measured{Container: "sidecar"}
	if err := other.ReadAnswers("a", "shop", strings.NewReader(histogram)); err != nil || other.Answers != 0 ||
		other.P99 != 0 {
		t.Errorf("a container that was never asked got %+v, %v", other, err)
	}
	if err := m.ReadAnswers("a", "shop", strings.NewReader("no {metrics")); err == nil {
		t.Error("what is no metrics was taken")
	}
}

// row: TOO-07
func TestMeasuredStarts(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var entries []journal.Entry
	for _, e := range []struct {
		at   int
		fact journal.Fact
	}{
		{0, journal.ContainerStarted{Container: "web"}},
		{1, journal.ContainerStarted{Container: "sidecar"}},
		{7, journal.ConditionChanged{Type: "Ready", Status: "True"}},
		{20, journal.ConditionChanged{Type: "Ready", Status: "False"}},
		{50, journal.ConditionChanged{Type: "Ready", Status: "True"}}, // no start
		{60, journal.ContainerExited{Container: "web"}},
		{70, journal.ContainerStarted{Container: "web", Restart: 1}},
		{75, journal.ContainerExited{Container: "web"}}, // never became ready
		{80, journal.ConditionChanged{Type: "Ready", Status: "True"}},
		{90, journal.ContainerStarted{Container: "web", Restart: 2}},
		{102, journal.ConditionChanged{Type: "Ready", Status: "True"}},
	} {
		entries = append(entries, journal.Entry{At: begin.Add(time.Duration(e.at) * time.Second), Fact: e.fact})
	}
	m := probeplan.Measured{Container: "web"}
	m.ReadStarts(entries)
	if m.Starts != 2 || m.Start != 12*time.Second {
		t.Errorf("got %+v, want the slowest of 2 starts, 12 s", m)
	}
}

func TestWindows(t *testing.T) {
	for text, want := range map[string]probeplan.Window{
		"high": {Min: 15 * time.Second, Max: 45 * time.Second}, "40s..2m": {Min: 40 * time.Second,
			Max: 2 * time.Minute},
	} {
		if got, err := probeplan.ReadWindow(text); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "often", "30s", "30..90", "..", "1s..x"} {
		if got, err := probeplan.ReadWindow(text); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}
