package podactions

import (
	"context"
	"sync"
	"time"
)

// callLimiter bounds how many heavy calls run in the runtime side by side: many at once take longer
// for each and for all. Containers go before sandboxes, so that Pods that were begun are finished
// first. A call that takes long, because something hangs, gives its place up and goes on: nobody
// waits for it.
type callLimiter struct {
	maxWait time.Duration

	mu     sync.Mutex
	free   int
	queues [2][]chan struct{}
}

// Urgency of a heavy call; lower goes first.
const (
	containerPriority = iota // containers, and whatever ends
	sandboxPriority          // sandboxes
)

const maxQueueWait = time.Second

func newCallLimiter(places int) *callLimiter {
	return &callLimiter{maxWait: maxQueueWait, free: places}
}

// run runs the call when there is a place for it.
func (g *callLimiter) run(ctx context.Context, urgency int, call func() error) error {
	if err := g.enter(ctx, urgency); err != nil {
		return err
	}
	var once sync.Once
	leave := func() { once.Do(g.leave) }
	timer := time.AfterFunc(g.maxWait, leave)
	defer func() { timer.Stop(); leave() }()
	return call()
}

func (g *callLimiter) enter(ctx context.Context, urgency int) error {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	g.queues[urgency] = append(g.queues[urgency], turn)
	g.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	for i, t := range g.queues[urgency] {
		if t == turn {
			g.queues[urgency] = append(g.queues[urgency][:i:i], g.queues[urgency][i+1:]...)
			g.mu.Unlock()
			return ctx.Err()
		}
	}
	g.mu.Unlock()
	g.leave() // the turn came at the same moment
	return ctx.Err()
}

func (g *callLimiter) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for u, q := range g.queues {
		if len(q) > 0 {
			g.queues[u] = q[1:]
			close(q[0])
			return
		}
	}
	g.free++
}
