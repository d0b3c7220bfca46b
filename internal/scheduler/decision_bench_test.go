package scheduler

import (
	"fmt"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// BenchmarkDecision finds a node for a Pod among 200, with what the scheduling cycle does around
// Filter and Score: snapshot, metrics, fact.
func BenchmarkDecision(b *testing.B) {
	s, err := New(Options{Client: fake.NewClientset(), Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	c := s.cycle.(*schedulingCycle)
	state := c.queue.(*cacheAndQueue)
	for i := range 200 {
		state.cache.SetNode(aNode(fmt.Sprintf("node-%d", i), "64"))
	}
	p := aPod("web", "10m")
	p.UID = "web"
	p.Spec.SchedulerName = "default-scheduler"
	info, _ := snapshot.NewPodInfo(p)
	for b.Loop() {
		a := newAttempt(&queue.Entry{Info: info}, c.profiles["default-scheduler"])
		if err := c.algorithm.schedulePod(b.Context(), a); err != nil || !a.result.Scheduled() {
			b.Fatal(err, a.result.Status)
		}
	}
}
