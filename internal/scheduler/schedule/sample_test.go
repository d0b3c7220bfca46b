package schedule_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// TestPlacementIsTheLocalBestOfTheSample: a Pod goes to the best of the nodes that were looked at,
// though a better one stands outside, and only those are scored.
// row: SCH-32
// row: SCO-15, SCO-16
func TestPlacementIsTheLocalBestOfTheSample(t *testing.T) {
	var nodes []*v1.Node
	for i := range 300 {
		cpu := "4"
		if i == 250 { // emptier than all others once the Pod is there, so that it scores best
			cpu = "64"
		}
		nodes = append(nodes, node(fmt.Sprintf("n%03d", i), cpu, "64Gi"))
	}
	snap := snapshot.Of(nodes, nil)
	for name, memory := range map[string]*schedule.EquivalenceCache{"plain": nil, "from memory": {}} {
		in := schedule.Input{Pod: pod("web", "1", "1Gi"), Snapshot: snap, Plugins: defaultPlugins(t),
			Sample: schedule.Sample{Percent: 50}, Cache: memory}
		r := schedule.SchedulePod(t.Context(), in)
		if r.EvaluatedNodes != 150 || r.Feasible() != 150 || r.SuggestedHost == "n250" {
			t.Errorf("%s: %d visited, %d fit, %s chosen", name, r.EvaluatedNodes, r.Feasible(), r.SuggestedHost)
		}
		for _, s := range r.Scores(300) {
			if s.Node >= "n150" {
				t.Errorf("%s: %s outside the sample is scored", name, s.Node)
			}
		}
		if left := r.LeftOut(300); len(left) != 150 || left[0] != "n150" || left[149] != "n299" {
			t.Errorf("%s: not visited: %v", name, left)
		}
		if f := r.Fact(); f.Visited != 150 || len(f.LeftOut) != schedule.MaxNodesLeftOut || f.LeftOut[0] != "n150" {
			t.Errorf("%s: the fact says %d visited, left out %v", name, f.Visited, f.LeftOut)
		}
		in.Sample.StartsAt = 200 // the sample goes on from the beginning
		if left := schedule.SchedulePod(t.Context(), in).LeftOut(300); len(left) != 150 || left[0] != "n050" ||
			left[149] != "n199" {
			t.Errorf("%s, from node 200: not visited: %v", name, left)
		}
		in.Sample = schedule.Sample{}
		if r := schedule.SchedulePod(t.Context(), in); r.EvaluatedNodes != 300 || r.SuggestedHost != "n250" {
			t.Errorf("%s, all nodes: %d visited, %s chosen", name, r.EvaluatedNodes, r.SuggestedHost)
		}
	}
}
