package main

import (
	"os"
	"testing"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// sample returns the trace in GANTRY_OPENB, or the part of it in this directory.
func sample(t *testing.T) *trace {
	t.Helper()
	dir := "testdata/openb"
	if named := os.Getenv("GANTRY_OPENB"); named != "" {
		dir = named
	}
	all, err := readTrace(dir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestTraceIsScheduledAlikeWithCaches: every Pod of a real trace gets the node that it gets without
// caches, and no node is overcommitted.
func TestTraceIsScheduledAlikeWithCaches(t *testing.T) {
	all := sample(t)
	quick, err := newEvaluator(false)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range all.nodes {
		quick.snapshot.SetNode(n)
	}
	placed := 0
	for _, p := range all.pods {
		in := quick.in(p)
		plain := in
		plain.Cache, plain.Buffers = nil, nil
		a, b := schedule.SchedulePod(t.Context(), in), schedule.SchedulePod(t.Context(), plain)
		if different := schedule.Differences(a, b); len(different) > 0 {
			t.Fatalf("%s: got %v, want no different", p.Name, different)
		}
		if !a.Scheduled() {
			continue
		}
		placed++
		if err := quick.snapshot.AssumePod(p, a.SuggestedHost); err != nil {
			t.Fatal(err)
		}
	}
	if placed < len(all.pods)/2 {
		t.Errorf("%d of %d Pods placed", placed, len(all.pods))
	}
	for _, n := range quick.snapshot.UpdateSnapshot().All() {
		has, used := snapshot.VectorOf(n.GetAllocatable()), snapshot.VectorOf(n.GetRequested())
		if used.MilliCPU > has.MilliCPU || used.Memory > has.Memory || used.Scalar[gpuMilli] > has.Scalar[gpuMilli] {
			t.Errorf("%s is given more than it has", n.Node().Name)
		}
	}
	if c := quick.cache.Counts(); c.Hits == 0 || c.Bypassed > 0 {
		t.Errorf("the memory was not used: %+v", c)
	}
}
