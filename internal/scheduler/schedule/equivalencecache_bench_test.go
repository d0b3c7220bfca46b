package schedule_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// BenchmarkMemory is a whole decision in memory with every node in the running: cycle, fact for the
// journal, assumption, next snapshot.
func BenchmarkMemory(b *testing.B) {
	for _, nodes := range []int{500, 5000, 100000} {
		for _, shapes := range []int{1, 150} {
			b.Run(fmt.Sprintf("nodes=%d/shapes=%d", nodes, shapes),
				func(b *testing.B) { benchmarkCache(b, nodes, shapes) })
		}
	}
}

func benchmarkCache(b *testing.B, nodes, shapes int) {
	w := snapshot.NewCache()
	for i := range nodes {
		w.SetNode(node(fmt.Sprintf("node-%d", i), "4000", "25600Gi", zone(fmt.Sprintf("z%d", i%3)), limit(1<<30)))
	}
	pluginSet, buffers, memory := defaultPlugins(b), &schedule.Buffers{}, &schedule.EquivalenceCache{}
	one := func(i int) {
		p := pod(fmt.Sprintf("p%d", i), fmt.Sprintf("%dm", 100+i%shapes), "200Mi")
		r := schedule.SchedulePod(context.Background(), schedule.Input{Pod: p, Snapshot: w.UpdateSnapshot(),
			Plugins: pluginSet, Buffers: buffers, Cache: memory})
		if !r.Scheduled() {
			b.Fatalf("got %v, want r.Scheduled() true", r.Message())
		}
		if err := w.AssumePod(p, r.SuggestedHost); err != nil {
			b.Fatal(err)
		}
	}
	for i := range shapes {
		one(i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		one(shapes + i)
	}
	if c := memory.Counts(); c.Bypassed > 0 || c.Misses != int64(shapes) {
		b.Fatalf("got %+v, want Bypassed at most 0 and Misses %v", c, int64(shapes))
	}
}

// BenchmarkNewShape is the first Pod of a shape.
func BenchmarkNewShape(b *testing.B) {
	w := snapshot.NewCache()
	for i := range 5000 {
		w.SetNode(node(fmt.Sprintf("node-%d", i), "4000", "25600Gi", zone(fmt.Sprintf("z%d", i%3))))
	}
	pluginSet, buffers, memory := defaultPlugins(b), &schedule.Buffers{}, &schedule.EquivalenceCache{}
	s := w.UpdateSnapshot()
	b.ReportAllocs()
	for i := range b.N {
		p := pod("p", fmt.Sprintf("%dm", 1+i), "200Mi")
		if r := schedule.SchedulePod(context.Background(), schedule.Input{Pod: p, Snapshot: s, Plugins: pluginSet,
			Buffers: buffers, Cache: memory}); !r.Scheduled() {
			b.Fatalf("got %v, want r.Scheduled() true", r.Message())
		}
	}
}
