package place_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// BenchmarkMemory is a whole decision in memory with every node in the running: ruling, fact for the journal, assumption, next snapshot.
func BenchmarkMemory(b *testing.B) {
	for _, nodes := range []int{500, 5000, 100000} {
		for _, shapes := range []int{1, 150} {
			b.Run(fmt.Sprintf("nodes=%d/shapes=%d", nodes, shapes), func(b *testing.B) { remembering(b, nodes, shapes) })
		}
	}
}

func remembering(b *testing.B, nodes, shapes int) {
	w := snapshot.NewWorld()
	for i := range nodes {
		w.SetNode(node(fmt.Sprintf("node-%d", i), "4000", "25600Gi", zone(fmt.Sprintf("z%d", i%3)), limit(1<<30)))
	}
	judges, boards, memory := defaultJudges(b), &place.Boards{}, &place.Memory{}
	one := func(i int) {
		p := pod(fmt.Sprintf("p%d", i), fmt.Sprintf("%dm", 100+i%shapes), "200Mi")
		r := place.One(context.Background(), place.In{Pod: p, World: w.Freeze(), Judges: judges, Boards: boards, Memory: memory})
		if !r.Fits() {
			b.Fatal(r.Message())
		}
		if err := w.Assume(p, r.Winner); err != nil {
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
	if c := memory.Counts(); c.Plain > 0 || c.New != int64(shapes) {
		b.Fatalf("%+v", c)
	}
}

// BenchmarkNewShape is the first Pod of a shape.
func BenchmarkNewShape(b *testing.B) {
	w := snapshot.NewWorld()
	for i := range 5000 {
		w.SetNode(node(fmt.Sprintf("node-%d", i), "4000", "25600Gi", zone(fmt.Sprintf("z%d", i%3))))
	}
	judges, boards, memory := defaultJudges(b), &place.Boards{}, &place.Memory{}
	s := w.Freeze()
	b.ReportAllocs()
	for i := range b.N {
		p := pod("p", fmt.Sprintf("%dm", 1+i), "200Mi")
		if r := place.One(context.Background(), place.In{Pod: p, World: s, Judges: judges, Boards: boards, Memory: memory}); !r.Fits() {
			b.Fatal(r.Message())
		}
	}
}
