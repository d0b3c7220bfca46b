package scheduler

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/config"
)

// A profile's own percentageOfNodesToScore goes before that of all profiles, and each cycle begins
// at the node after the last one that the cycle before looked at.
//
// row: SCO-12, SCO-13, SCO-15
func TestProfilesSampleAndCyclesTakeTurns(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load([]byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 50
profiles:
- schedulerName: default-scheduler
- schedulerName: thorough
  percentageOfNodesToScore: 100
`))
	if err != nil {
		t.Fatal(err)
	}
	const nodes = 240
	objects := make([]runtime.Object, 0, nodes)
	for i := range nodes {
		objects = append(objects, aNode(fmt.Sprintf("n%03d", i), "4"))
	}
	c := run(t, t.Context(), func(o *Options) { o.Config = cfg }, objects)
	ruled := func(name, profile string) journal.Ruled {
		t.Helper()
		c.create(aPod(name, "10m", func(p *v1.Pod) { p.Spec.SchedulerName = profile }))
		c.bound(name)
		for _, f := range c.notes.of(name) {
			if r, ok := f.(journal.Ruled); ok {
				return r
			}
		}
		t.Fatalf("no ruling about %s", name)
		return journal.Ruled{}
	}
	if r := ruled("all", "thorough"); r.Visited != nodes || r.Feasible != nodes || r.Left != 0 {
		t.Errorf("profile of 100 %%: %d visited, %d feasible, %d left out, want %d, %d, 0", r.Visited, r.Feasible,
			r.Left,
			nodes, nodes)
	}
	for i, first := range []string{"n120", "n000", "n120", "n000"} {
		r := ruled(fmt.Sprintf("half-%d", i), "default-scheduler")
		if r.Visited != nodes/2 || r.Feasible != nodes/2 || r.Left != nodes/2 {
			t.Errorf("profile of 50 %%: %d visited, %d feasible, %d left out, want half of %d", r.Visited, r.Feasible,
				r.Left,
				nodes)
		}
		if len(r.LeftOut) == 0 || r.LeftOut[0] != first {
			t.Errorf("cycle %d: the first node left out is of %v, want %s", i, r.LeftOut, first)
		}
	}
}
