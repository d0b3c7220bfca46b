package pull

import (
	"context"
	"slices"
	"time"

	"github.com/gantry-project/gantry/internal/journal"
)

// How often a pull that is under way is measured: soon at first, for somebody who watches; then
// seldom, as the journal is bounded.
const (
	firstProgressInterval = time.Second
	maxProgressInterval   = 10 * time.Second
)

// join adds a Pod to those that get the progress of the pull. Callers hold Puller.mu.
func (f *sharedPull) join(t *podPull) {
	f.waiters++
	f.listeners = append(f.listeners, t)
	if f.lastNews != nil {
		t.put(f.lastNews(t))
	}
}

// leave is called when a Pod waits no more. Callers hold Puller.mu.
func (f *sharedPull) leave(t *podPull) {
	f.waiters--
	f.listeners = slices.DeleteFunc(f.listeners, func(x *podPull) bool { return x == t })
}

// broadcast states a fact for every Pod that waits, and for those that will join while it is the
// newest.
func (p *Puller) broadcast(f *sharedPull, fact func(*podPull) journal.Fact) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.lastNews = fact
	for _, t := range f.listeners {
		t.put(fact(t))
	}
}

// reportPosition tells the place of a pull that waits for others.
func (p *Puller) reportPosition(f *sharedPull) func(place int, running []string) {
	return func(place int, running []string) {
		p.broadcast(f, func(t *podPull) journal.Fact {
			return journal.PullQueued{Image: t.image, Container: t.container, Position: place, Limit: p.queue.limit,
				Pulling: running}
		})
	}
}

// reportProgress tells how far a pull is, ever more seldom, until ctx ends. Nothing is told twice.
func (p *Puller) reportProgress(ctx context.Context, f *sharedPull, image string) {
	if p.d.Progress == nil {
		return
	}
	pause, last := firstProgressInterval, int64(-1)
	for {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = min(pause*3/2, maxProgressInterval)
		done, total, ok := p.d.Progress(ctx, image)
		if !ok || done == last || ctx.Err() != nil {
			continue
		}
		last = done
		p.broadcast(f, func(t *podPull) journal.Fact {
			return journal.PullProgress{Image: t.image, Container: t.container, Bytes: done, Total: total}
		})
	}
}
