package schedule_test

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// countingFilter counts how often a filter is asked.
type countingFilter struct {
	framework.FilterPlugin
	calls *int
}

func (c countingFilter) Filter(ctx context.Context, s framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	*c.calls++
	return c.FilterPlugin.Filter(ctx, s, p, n)
}

// countingResourceChecker is counted for a filter that shares its statuses.
type countingResourceChecker struct {
	schedule.ResourceChecker
	schedule.ColumnPlugin
	countingFilter
}

func (s countingResourceChecker) AppendShape(to []byte, p *v1.Pod) ([]byte, bool) {
	return s.ResourceChecker.AppendShape(to, p)
}

func (s countingResourceChecker) Name() string { return s.countingFilter.Name() }

func (s countingResourceChecker) Filter(ctx context.Context, st framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	return s.countingFilter.Filter(ctx, st, p, n)
}

// TestNominationsAreReadWhenTheyChange: with half of the nodes nominated for others, a cycle
// goes by groups, and asks node by node only about those whose nominations, or which themselves,
// changed since.
func TestNominationsAreReadWhenTheyChange(t *testing.T) {
	const nodes = 200
	w := snapshot.NewCache()
	nominations := queue.NewNominator()
	nominate := func(i int) {
		p := pod(fmt.Sprintf("promised%d", i), "1", "")
		p.Spec.Priority = new(int32(5))
		info, err := snapshot.NewPodInfo(p)
		if err != nil {
			t.Fatal(err)
		}
		nominations.AddNominatedPod(info, fmt.Sprintf("n%d", i))
	}
	for i := range nodes {
		w.SetNode(node(fmt.Sprintf("n%d", i), "1", "8Gi"))
		if i%2 == 0 {
			nominate(i)
		} else if err := w.AssumePod(pod(fmt.Sprintf("there%d", i), "1", ""), fmt.Sprintf("n%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	pluginSet, memory, buffers, called := defaultPlugins(t), &schedule.EquivalenceCache{}, &schedule.Buffers{}, 0
	for i, f := range pluginSet.Filter {
		if x, ok := f.(schedule.ResourceChecker); ok {
			pluginSet.Filter[i] = countingResourceChecker{x, f.(schedule.ColumnPlugin), countingFilter{f, &called}}
		}
	}
	made := 0
	rule := func(priority int32, want string, most int) {
		t.Helper()
		made++
		p := pod(fmt.Sprintf("p%d", made), "1", "")
		p.Spec.Priority = &priority
		in := schedule.Input{Pod: p, Snapshot: w.UpdateSnapshot(), Plugins: pluginSet,
			NominatedPodsForNode: nominations.NominatedPodsForNode, NominatedNodes: nominations.NominatedNodes(),
			Nominations: nominations}
		plain := in
		plain.Nominations = nil
		other := schedule.SchedulePod(t.Context(), plain)
		called = 0
		in.Cache, in.Buffers = memory, buffers
		quick := schedule.SchedulePod(t.Context(), in)
		if called > most {
			t.Errorf("%d questions about single nodes, want at most %d", called, most)
		}
		for _, d := range schedule.Differences(other, quick) {
			t.Errorf("got %v, want no difference between the two schedulers", d)
		}
		if quick.SuggestedHost != want {
			t.Errorf("on %q, want %q", quick.SuggestedHost, want)
		}
	}
	rule(1, "", nodes)
	rule(1, "", 0)
	nominations.DeleteNominatedPodIfExists("promised7")
	nominations.DeleteNominatedPodIfExists("promised8")
	rule(1, "n8", 0)
	nominate(8)
	rule(1, "", 2)
	w.RemovePod("there3")
	rule(1, "n3", 0)
	nominate(3)
	rule(1, "", 2)
	made = -1 // p0 is nominated to n8 itself beside the other
	w.SetNode(node("n8", "2", "8Gi"))
	self := pod("p0", "1", "")
	self.Spec.Priority = new(int32(1))
	own, err := snapshot.NewPodInfo(self)
	if err != nil {
		t.Fatal(err)
	}
	nominations.AddNominatedPod(own, "n8")
	rule(1, "n8", 8)
	made = 100
	rule(0, "", nodes*2)
	rule(1, "", 8)         // beside p0 there is no room
	rule(6, "n8", nodes*2) // the nominations to less important Pods are of no concern
	if c := memory.Counts(); c.RowsFiltered+c.Bypassed > 0 {
		t.Errorf("%+v: results without node groups", c)
	}
}
