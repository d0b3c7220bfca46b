package place_test

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// counted counts how often a filter is asked.
type counted struct {
	framework.FilterPlugin
	asked *int
}

func (c counted) Filter(ctx context.Context, s framework.CycleState, p *v1.Pod, n framework.NodeInfo) *framework.Status {
	*c.asked++
	return c.FilterPlugin.Filter(ctx, s, p, n)
}

// spacious is counted for a filter that shares its verdicts.
type spacious struct {
	place.Spacious
	place.Indexed
	counted
}

func (s spacious) Shape(to []byte, p *v1.Pod) ([]byte, bool) { return s.Spacious.Shape(to, p) }

func (s spacious) Name() string { return s.counted.Name() }

func (s spacious) Filter(ctx context.Context, st framework.CycleState, p *v1.Pod, n framework.NodeInfo) *framework.Status {
	return s.counted.Filter(ctx, st, p, n)
}

// TestPromisesAreAskedAboutWhenTheyChange: with half of the nodes promised to others, a ruling goes by groups, and asks node by node only about those whose promises, or
// which themselves, changed since.
func TestPromisesAreAskedAboutWhenTheyChange(t *testing.T) {
	const nodes = 200
	w := snapshot.NewWorld()
	promised := queue.NewNominated()
	promise := func(i int) {
		p := pod(fmt.Sprintf("promised%d", i), "1", "")
		p.Spec.Priority = new(int32(5))
		info, err := snapshot.NewPodInfo(p)
		if err != nil {
			t.Fatal(err)
		}
		promised.Set(info, fmt.Sprintf("n%d", i))
	}
	for i := range nodes {
		w.SetNode(node(fmt.Sprintf("n%d", i), "1", "8Gi"))
		if i%2 == 0 {
			promise(i)
		} else if err := w.Assume(pod(fmt.Sprintf("there%d", i), "1", ""), fmt.Sprintf("n%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	judges, memory, boards, asked := defaultJudges(t), &place.Memory{}, &place.Boards{}, 0
	for i, f := range judges.Filter {
		if x, ok := f.(place.Spacious); ok {
			judges.Filter[i] = spacious{x, f.(place.Indexed), counted{f, &asked}}
		}
	}
	made := 0
	rule := func(priority int32, want string, most int) {
		t.Helper()
		made++
		p := pod(fmt.Sprintf("p%d", made), "1", "")
		p.Spec.Priority = &priority
		in := place.In{Pod: p, World: w.Freeze(), Judges: judges, Nominated: promised.On, Promised: promised.Nodes(), Pledged: promised}
		plain := in
		plain.Pledged = nil
		other := place.One(t.Context(), plain)
		asked = 0
		in.Memory, in.Boards = memory, boards
		quick := place.One(t.Context(), in)
		if asked > most {
			t.Errorf("%d questions about single nodes, want at most %d", asked, most)
		}
		for _, d := range place.Differences(other, quick) {
			t.Error(d)
		}
		if quick.Winner != want {
			t.Errorf("on %q, want %q", quick.Winner, want)
		}
	}
	rule(1, "", nodes)
	rule(1, "", 0)
	promised.Drop("promised7")
	promised.Drop("promised8")
	rule(1, "n8", 0)
	promise(8)
	rule(1, "", 2)
	w.RemovePod("there3")
	rule(1, "n3", 0)
	promise(3)
	rule(1, "", 2)
	made = -1 // p0 is promised n8 itself beside the other
	w.SetNode(node("n8", "2", "8Gi"))
	self := pod("p0", "1", "")
	self.Spec.Priority = new(int32(1))
	own, err := snapshot.NewPodInfo(self)
	if err != nil {
		t.Fatal(err)
	}
	promised.Set(own, "n8")
	rule(1, "n8", 8)
	made = 100
	rule(0, "", nodes*2)
	rule(1, "", 8)         // beside p0 there is no room
	rule(6, "n8", nodes*2) // the promises to less important Pods are of no concern
	if c := memory.Counts(); c.Swept+c.Plain > 0 {
		t.Errorf("%+v: rulings that were not by groups", c)
	}
}
