package schedule_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// inParallel is the runner the scheduler passes.
func inParallel(n int, do func(int)) {
	workers := runtime.GOMAXPROCS(0)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w * n / workers; i < (w+1)*n/workers; i++ {
				do(i)
			}
		})
	}
	wg.Wait()
}

// BenchmarkPlace places, assumes and freezes again: one whole decision in memory, every node
// scored.
func BenchmarkPlace(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		for name, each := range map[string]func(int, func(int)){"serial": nil, "parallel": inParallel} {
			b.Run(fmt.Sprintf("nodes=%d/%s", nodes, name), func(b *testing.B) { benchmarkSchedule(b, nodes, each) })
		}
	}
}

func benchmarkSchedule(b *testing.B, nodes int, each func(int, func(int))) {
	w := snapshot.NewCache()
	for i := range nodes {
		w.SetNode(node(fmt.Sprintf("node-%d", i), "32", "256Gi", zone(fmt.Sprintf("z%d", i%3))))
	}
	pluginSet := defaultPlugins(b)
	buffers := &schedule.Buffers{}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		p := pod(fmt.Sprintf("p%d", i), "100m", "200Mi")
		r := schedule.SchedulePod(context.Background(), schedule.Input{Pod: p, Snapshot: w.UpdateSnapshot(),
			Plugins: pluginSet, Parallel: each, Buffers: buffers})
		if !r.Scheduled() {
			b.Fatalf("got %v, want r.Scheduled() true", r.Message())
		}
		if err := w.AssumePod(p, r.SuggestedHost); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRefuse is a Pod that fits nowhere, with the fact for the journal.
func BenchmarkRefuse(b *testing.B) {
	w := snapshot.NewCache()
	for i := range 5000 {
		w.SetNode(node(fmt.Sprintf("node-%d", i), "1", "1Gi"))
	}
	pluginSet, buffers := defaultPlugins(b), &schedule.Buffers{}
	p := pod("p", "2", "1Gi", func(p *v1.Pod) {})
	b.ReportAllocs()
	for b.Loop() {
		r := schedule.SchedulePod(context.Background(), schedule.Input{Pod: p, Snapshot: w.UpdateSnapshot(),
			Plugins: pluginSet, Buffers: buffers})
		if f := r.Fact(); len(f.Refusals) != schedule.MaxRefusals {
			b.Fatalf("got %v, want MaxRefusals in Refusals", f)
		}
	}
}
