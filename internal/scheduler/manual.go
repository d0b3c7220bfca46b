package scheduler

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gantry-project/gantry/internal/scheduler/bind/volumebinder"
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
	w.goroutines.deferred = newDeferredWork()
	s, err := w.build()
	if err != nil {
		return nil, err
	}
	s.handlers.start(ctx)
	return &Manual{cycle: s.cycle.(*schedulingCycle), state: w.state, deferred: w.goroutines.deferred,
		statuses: s.statuses, stop: func() { s.handlers.stop(); s.events.Shutdown() }}, nil
}

// Close ends what would carry events, of which there are none. The scheduler is not used after it.
func (m *Manual) Close() {
	m.deferred.close()
	m.stop()
}

// Step lets bindings go on that waited for volumes; without any, it schedules the next Pod of the
// queue and binds it, puts it back, or has its binding wait for volumes. It reports whether there
// was something to do.
func (m *Manual) Step(ctx context.Context) bool {
	ctx = volumebinder.WithWaiter(ctx, m.deferred.wait)
	if m.deferred.resume() {
		m.deferred.run()
		return true
	}
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

// deferredWork keeps work until run. Any goroutine may add. Each work has a goroutine of its own,
// so that it can wait for volumes; one at a time goes on, while run or resume waits for it.
type deferredWork struct {
	mu   sync.Mutex
	work []func()

	stops chan *waitingWork // a goroutine begins to wait
	ends  chan struct{}     // a goroutine's work is over
	waits []*waitingWork
}

// waitingWork is work that waits until changed is closed.
type waitingWork struct {
	changed <-chan struct{}
	resume  chan error
}

func newDeferredWork() *deferredWork {
	return &deferredWork{stops: make(chan *waitingWork), ends: make(chan struct{})}
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
			go func() {
				work()
				d.ends <- struct{}{}
			}()
			d.await()
		}
	}
}

// await returns when the goroutine that goes on has ended or waits.
func (d *deferredWork) await() {
	select {
	case p := <-d.stops:
		d.waits = append(d.waits, p)
	case <-d.ends:
	}
}

// wait is the volumebinder.Waiter of work.
func (d *deferredWork) wait(changed <-chan struct{}) error {
	p := &waitingWork{changed: changed, resume: make(chan error)}
	d.stops <- p
	return <-p.resume
}

// resume lets work that waits go on for which something changed, and reports whether there was any.
func (d *deferredWork) resume() bool {
	all, any := d.waits, false
	d.waits = nil
	for _, p := range all {
		select {
		case <-p.changed:
			any = true
			p.resume <- nil
			d.await()
		default:
			d.waits = append(d.waits, p)
		}
	}
	return any
}

// errClosed is why work that waits when the scheduler ends fails.
var errClosed = errors.New("the scheduler has ended")

// close ends what waits.
func (d *deferredWork) close() {
	for len(d.waits) > 0 {
		p := d.waits[0]
		d.waits = d.waits[1:]
		p.resume <- errClosed
		d.await()
	}
}
