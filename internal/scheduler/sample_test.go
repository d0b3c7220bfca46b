package scheduler

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/config"
)

// A profile's own percentageOfNodesToScore goes before that of all profiles, and each cycle begins
// at the node after the last one that the cycle before looked at.
//
// row: FIL-26, SCO-12, SCO-13, SCO-15
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
	c := startWithNodes(t, cfg, nodes)
	ruled := func(name, profile string) journal.Ruled {
		t.Helper()
		return c.ruled(name, func(p *v1.Pod) { p.Spec.SchedulerName = profile })
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

// startWithNodes starts a scheduler with so many equal nodes, n000 and so on.
func startWithNodes(t *testing.T, cfg *schedulerconfig.KubeSchedulerConfiguration, nodes int) *cluster {
	t.Helper()
	objects := make([]runtime.Object, 0, nodes)
	for i := range nodes {
		objects = append(objects, aNode(fmt.Sprintf("n%03d", i), "4"))
	}
	return run(t, t.Context(), func(o *Options) { o.Config = cfg }, objects)
}

// ruled has a Pod scheduled and returns the recorded result.
func (c *cluster) ruled(name string, change func(*v1.Pod)) journal.Ruled {
	c.t.Helper()
	c.create(aPod(name, "10m", change))
	c.bound(name)
	for _, f := range c.notes.factsOf(name) {
		if r, ok := f.(journal.Ruled); ok {
			return r
		}
	}
	c.t.Fatalf("no ruling about %s", name)
	return journal.Ruled{}
}

// row: SCO-11
func TestTheSampleIsAdaptiveUnlessTheFileSaysOtherwise(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 120, "percentageOfNodesToScore: 0\n": 120,
		"percentageOfNodesToScore: 60\n": 150} {
		cfg, err := config.Load(
			[]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" + text))
		if err != nil {
			t.Fatal(err)
		}
		if r := startWithNodes(t, cfg, 250).ruled("web", func(*v1.Pod) {}); r.Visited != want || r.Feasible != want {
			t.Errorf("file %q: %d of 250 nodes visited, %d feasible, want %d", text, r.Visited, r.Feasible, want)
		}
	}
}
