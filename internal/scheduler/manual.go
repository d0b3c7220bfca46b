package scheduler

import (
	"context"
	"sync"
	"time"
)

// Manual is a scheduler that its caller runs Pod by Pod, on the caller's clock: for simulations in
// virtual time. The decisions are Run's; what Run does beside the cycles (bindings, evictions,
// statuses) is done when the cycle is over, so that everything a Step causes has happened when it
// returns. A Pod that waits at Permit would wait for ever: plugins that make Pods wait are not for
// it. One goroutine uses it.
type Manual struct {
	cycle    *schedulingCycle
	state    *cacheAndQueue
	deferred *deferredWork
	statuses []runner
	stop     func()
}

// NewManual makes a scheduler on the clock now. Its informers are told of changes by the caller.
func NewManual(ctx context.Context, o Options, now func() time.Time) (*Manual, error) {
	w, err := newWiring(o)
	if err != nil {
		return nil, err
	}
	w.state.now = now
	w.goroutines.deferred = &deferredWork{}
	s, err := w.build()
	if err != nil {
		return nil, err
	}
	s.handlers.start(ctx)
	return &Manual{cycle: s.cycle.(*schedulingCycle), state: w.state, deferred: w.goroutines.deferred,
		statuses: s.statuses, stop: func() { s.handlers.stop(); s.events.Shutdown() }}, nil
}

// Close ends what would carry events, of which there are none. The scheduler is not used after it.
func (m *Manual) Close() { m.stop() }

// Step schedules the next Pod of the queue, binds it or puts it back, and reports whether there was
// one.
func (m *Manual) Step(ctx context.Context) bool {
	next := m.state.pop(true)
	if next.entry == nil {
		return false
	}
	m.cycle.scheduleOne(ctx, next.entry)
	m.cycle.bindings.flush()
	m.deferred.run()
	for _, w := range m.statuses {
		w.WritePending(ctx)
	}
	return true
}

// Wake returns when Step may find a Pod without a change of the cluster: when back-offs end; the
// zero time: never.
func (m *Manual) Wake() time.Time {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	return m.state.queue.NextFlush()
}

// deferredWork keeps work until run. Any goroutine may add.
type deferredWork struct {
	mu   sync.Mutex
	work []func()
}

func (d *deferredWork) add(work func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.work = append(d.work, work)
}

// run does what was added, in order, and what that adds.
func (d *deferredWork) run() {
	for {
		d.mu.Lock()
		all := d.work
		d.work = nil
		d.mu.Unlock()
		if len(all) == 0 {
			return
		}
		for _, work := range all {
			work()
		}
	}
}
