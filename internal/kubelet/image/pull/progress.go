package pull

import (
	"context"
	"slices"
	"time"

	"github.com/gantry-project/gantry/internal/journal"
)

// How often a pull that is under way is measured: soon at first, for somebody who watches; then seldom, as the journal is bounded.
const (
	firstMeasure = time.Second
	mostMeasure  = 10 * time.Second
)

// join adds a Pod to those who hear of the flight. Callers hold Puller.mu.
func (f *flight) join(t *tale) {
	f.waiting++
	f.hear = append(f.hear, t)
	if f.news != nil {
		t.put(f.news(t))
	}
}

// leave is called when a Pod waits no more. Callers hold Puller.mu.
func (f *flight) leave(t *tale) {
	f.waiting--
	f.hear = slices.DeleteFunc(f.hear, func(x *tale) bool { return x == t })
}

// tell states a fact for every Pod that waits, and for those that will join while it is the newest.
func (p *Puller) tell(f *flight, news func(*tale) journal.Fact) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.news = news
	for _, t := range f.hear {
		t.put(news(t))
	}
}

// queued tells the place of a pull that waits for others.
func (p *Puller) queued(f *flight) func(place int, running []string) {
	return func(place int, running []string) {
		p.tell(f, func(t *tale) journal.Fact {
			return journal.PullQueued{Image: t.image, Container: t.container, Place: place, Limit: p.turns.limit, Pulling: running}
		})
	}
}

// measure tells how far a pull is, ever more seldom, until ctx ends. Nothing is told twice.
func (p *Puller) measure(ctx context.Context, f *flight, image string) {
	if p.d.Progress == nil {
		return
	}
	pause, last := firstMeasure, int64(-1)
	for {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = min(pause*3/2, mostMeasure)
		done, total, ok := p.d.Progress(ctx, image)
		if !ok || done == last || ctx.Err() != nil {
			continue
		}
		last = done
		p.tell(f, func(t *tale) journal.Fact {
			return journal.PullProgress{Image: t.image, Container: t.container, Bytes: done, Of: total}
		})
	}
}
