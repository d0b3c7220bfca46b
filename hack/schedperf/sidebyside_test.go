package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/hack/bench/result"
)

// Side by side, a scheduler's rate is all Pods over all CPU time of its turns, however they differ;
// turns with unscheduled Pods are marked.
func TestVersusAddsUpRuns(t *testing.T) {
	of := func(who string, turn, placed int, cpu float64) row {
		return row{Case: "A", Nodes: 500, Pods: 100, Placed: placed, Scheduler: who, Turn: turn, CPU: cpu,
			PerCore: float64(placed) / cpu, P50: float64(turn), P99: 10}
	}
	got := table([]row{
		of("gantry", 1, 100, 0.1), of("other", 2, 100, 1), of("other", 3, 50, 2), of("gantry", 4, 100, 0.3),
		{Case: "B", Nodes: 500, Pods: 100, Placed: 100, Scheduler: "gantry", Turn: 1, CPU: 1, PerCore: 100},
	})
	for _, line := range []string{
		"| A | 500 | 100 | 1000, 333 | 100, 25 | 10.0 | 1.0 | 10.0 | 0 | 2.0 | 10.0 | 0 | other, turn 3: 50 placed |\n",
		"| B | 500 | 100 | 100 |  | - | ",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("no line %q in\n%s", line, got)
		}
	}
}

// In memory, volumes and devices are accounted: no node gets more than it has, and every Pod for
// which there are some is placed.
func TestVolumesAndDevicesAreAccounted(t *testing.T) {
	for _, x := range []struct {
		name       string
		pods, want int // on two nodes
	}{
		{"SchedulingWithResourceClaim", 2*perNode + 5, 2 * perNode},
		{"SchedulingCSIPVs", 2*limit + 1, 2 * limit}, // their CPU is for 80
		{"SchedulingMigratedInTreePVs", 2*limit + 1, 2 * limit},
		{"SchedulingCSIPVsWithoutLimits", 85, 80},
	} {
		i := slices.IndexFunc(workloads, func(s workload) bool { return s.name == x.name })
		if i < 0 {
			t.Fatalf("no shape %s", x.name)
		}
		r, err := workloads[i].inMemory(t.Context(), options{pods: x.pods}, 2)
		if err != nil {
			t.Errorf("%s: got error %v, want none", x.name, err)
		} else if r.Placed != x.want {
			t.Errorf("%s: %d of %d Pods placed, want %d", x.name, r.Placed, x.pods, x.want)
		}
	}
}

// The turns of a case are one set of figures: the rate of all Pods in all CPU time, and the best
// times.
func TestFiguresAddUpRuns(t *testing.T) {
	of := func(who string, turn int, cpu float64) row {
		return row{
			Case: "A", Nodes: 500, Pods: 100, Placed: 100, Scheduler: who, Turn: turn, CPU: cpu, PerCore: 100 / cpu,
			P50: float64(turn), P99: float64(10 * turn),
		}
	}
	got := map[string]result.Figure{}
	for _, f := range figures([]row{of("gantry", 1, 0.1), of("kube-scheduler", 2, 1), of("gantry", 3, 0.3)},
		"create → bound") {
		got[f.Name] = f
	}
	rate, other := got["gantry/A, 500 nodes/Pods per core-second"], got["other/A, 500 nodes/Pods per core-second"]
	if rate.Value == nil || *rate.Value != 500 || other.Value == nil || *other.Value != 100 {
		t.Errorf("got %+v and %+v, want 500/s and 100/s", rate, other)
	}
	if f := got["gantry/A, 500 nodes/create → bound"]; f.Median == nil || *f.Median != 1 || *f.P99 != 10 {
		t.Errorf("got %+v, want the first turn's 1 and 10 ms", f)
	}
}
