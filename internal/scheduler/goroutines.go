package scheduler

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/scheduler/metrics"
)

// goroutines runs work beside the scheduling cycles, binding cycles and evictions, and waits for it
// when the scheduler ends. Any goroutine may call it.
type goroutines struct {
	running sync.WaitGroup
	timeout time.Duration // that wait gives them
	metrics *metrics.Metrics

	deferred *deferredWork // nil: work is done at once
}

func newGoroutines(timeout time.Duration, m *metrics.Metrics) *goroutines {
	return &goroutines{timeout: timeout, metrics: m}
}

// start runs work in a goroutine that counts as one of an operation (binding, preemption).
func (g *goroutines) start(operation string, work func()) {
	if g.deferred != nil {
		g.deferred.add(work)
		return
	}
	g.metrics.AddGoroutines(operation, 1)
	g.running.Go(func() {
		defer g.metrics.AddGoroutines(operation, -1)
		work()
	})
}

// hold has wait wait for work that no goroutine here does; the caller calls release when it is
// done.
func (g *goroutines) hold() (release func()) {
	g.running.Add(1)
	return g.running.Done
}

// wait returns when all work is done, or after the timeout: work that a plugin holds up which does
// not return is left.
func (g *goroutines) wait(ctx context.Context) {
	over := make(chan struct{})
	go func() {
		g.running.Wait()
		close(over)
	}()
	t := time.NewTimer(g.timeout)
	defer t.Stop()
	select {
	case <-over:
	case <-t.C:
		klog.FromContext(ctx).Info("Bindings under way do not end and are left", "after", g.timeout)
	}
}
