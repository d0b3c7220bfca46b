package fanout

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

const (
	// patience is how long a watch that brings nothing must last; it is opened anew so often when it ends sooner.
	patience = time.Second
	attempts = 4
	// gulp is how many events a group takes, or a member is fed, at once.
	gulp = 64
)

// group is the members of a scope with the watch that they share.
type group struct {
	of      *Storage
	scope   scope
	options storage.ListOptions
	ctx     context.Context // of the watch
	stop    context.CancelFunc
	watch   watch.Interface // touched by run alone
	ahead   []watch.Event   // taken out of it already

	mu      sync.Mutex
	window  window
	members map[*member]struct{}
	over    bool // no event comes any more
	failed  bool // the last one was an error
}

// open watches the cache from what the group knows on; nil if the cache does not know what comes next.
func (g *group) open() (watch.Interface, []watch.Event) {
	o := g.options
	o.ResourceVersion = revision(g.window.high)
	w, err := g.of.cache.Watch(g.ctx, g.scope.key, o)
	if err != nil {
		return nil, nil
	}
	select {
	case e, ok := <-w.ResultChan():
		if !ok || e.Type == watch.Error {
			w.Stop()
			return nil, nil
		}
		return w, []watch.Event{e}
	default: // a cache refuses at once
		return w, nil
	}
}

// run hands out what comes. When the cache ends the watch, as it does when it has no room for an event, another one goes on from there: the window says where.
func (g *group) run() {
	for vain := 0; g.watch != nil && vain < attempts; vain++ {
		began := time.Now()
		brought, failed := g.drain()
		g.watch.Stop()
		g.watch = nil
		if brought || time.Since(began) >= patience {
			vain = 0
		}
		if !failed && g.ctx.Err() == nil {
			g.watch, g.ahead = g.open()
		}
	}
	if g.watch != nil {
		g.watch.Stop()
	}
	g.end()
}

// drain hands out what the watch brings until it ends, and says whether it brought anything, an error last.
func (g *group) drain() (brought, failed bool) {
	batch := make([]entry, 0, gulp)
	for ok := true; ok && !failed; {
		batch = batch[:0]
		for _, e := range g.ahead {
			batch = append(batch, g.entry(e))
		}
		g.ahead = nil
		if batch, ok = g.fill(batch); len(batch) > 0 {
			brought = true
			failed = batch[len(batch)-1].Type == watch.Error
			g.hand(batch)
			clear(batch)
		}
	}
	return brought, failed
}

// fill waits for an event unless there is one, and takes what else is there; false says that the watch has ended.
func (g *group) fill(batch []entry) ([]entry, bool) {
	in := g.watch.ResultChan()
	if len(batch) == 0 {
		e, ok := <-in
		if !ok {
			return batch, false
		}
		batch = append(batch, g.entry(e))
	}
	for len(batch) < cap(batch) && batch[len(batch)-1].Type != watch.Error {
		select {
		case e, ok := <-in:
			if !ok {
				return batch, false
			}
			batch = append(batch, g.entry(e))
		default:
			return batch, true
		}
	}
	return batch, true
}

// entry is an event as the group keeps it. All but errors have a revision.
func (g *group) entry(e watch.Event) entry {
	if e.Type == watch.Error {
		return entry{Event: e}
	}
	if e.Type != watch.Bookmark {
		e.Object = sharable(e.Object)
	}
	r, _ := g.of.versioner.ObjectResourceVersion(e.Object)
	return entry{Event: e, revision: r}
}

// hand gives events to the members that keep up, and keeps them for the others.
func (g *group) hand(batch []entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.window.end()
	for _, e := range batch {
		g.window.add(e)
		g.failed = e.Type == watch.Error
	}
	needed := g.window.end()
	for m := range g.members {
		if m.direct {
			g.offer(m, at, batch)
		}
		if !m.direct {
			needed = min(needed, m.place)
		}
	}
	g.window.trim(needed)
}

// offer gives events, the first of which has the number at, to a member that keeps up. If it has no room for them it does not any more.
func (g *group) offer(m *member, at int, batch []entry) {
	for n := range batch {
		if !m.wants(&batch[n]) {
			continue
		}
		select {
		case m.out <- batch[n].own():
		default:
			m.direct, m.place = false, at+n
			go m.feed(g)
			return
		}
	}
}

// own is the event as one watcher gets it: what cannot be shared is copied.
func (e *entry) own() watch.Event {
	if e.Type == watch.Bookmark || e.Type == watch.Error {
		return watch.Event{Type: e.Type, Object: e.Object.DeepCopyObject()}
	}
	return e.Event
}

// admit takes a member who knows all up to a revision, if the window reaches back so far.
func (g *group) admit(m *member, from uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over || from < g.window.low {
		return false
	}
	m.group.Store(g)
	if m.ctx.Err() != nil || m.leaving.Load() { // asked after it is known where the member is, as Stop and leave look there after they say so
		m.group.Store(nil)
		return false
	}
	m.from = from
	g.members[m] = struct{}{}
	if m.direct = from >= g.window.high; !m.direct {
		m.place = g.window.first
		go m.feed(g)
	}
	return true
}

// release lets a member go whom the group hands events itself, and returns what it has seen all of; false if somebody else fills its channel.
func (g *group) release(m *member) (seen uint64, ok bool) {
	g.mu.Lock()
	if ok = m.direct; ok {
		m.direct = false
		delete(g.members, m)
	}
	seen = max(m.from, g.window.high)
	g.mu.Unlock()
	g.shrink()
	return seen, ok
}

// shrink ends the group when nobody is left.
func (g *group) shrink() {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	g.shrinkLocked()
}

func (g *group) shrinkLocked() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.members) == 0 {
		g.close()
	}
}

// end lets the group's members go on with watches of their own, those that lag when they have got
// what there is. After an error they end.
func (g *group) end() {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.close()
	for m := range g.members {
		if m.direct {
			m.direct = false
			delete(g.members, m)
			if g.failed {
				close(m.out)
			} else {
				go m.again(max(m.from, g.window.high))
			}
		}
	}
}

// close lets nobody join any more. Both locks are held.
func (g *group) close() {
	g.over = true
	g.stop()
	if g.of.groups[g.scope] == g {
		delete(g.of.groups, g.scope)
	}
}

// feeding is what becomes of a member that is fed.
type feeding int

const (
	lags    feeding = iota // there is more
	keepsUp                // the group hands it events again
	leaves                 // it goes on with a watch of its own: it is near its end, has fallen out of the window, or the group is over
	ended                  // it was stopped, or got an error
)

// next takes what a member is fed next. Only when there is nothing is it anything but lagging, unless it was stopped: then it gets nothing more, as what
// follows an event that it did not get is not for it.
func (g *group) next(m *member, batch []entry) ([]entry, feeding, uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	stopped := m.ctx.Err() != nil
	batch, ok := g.window.from(m.place, batch)
	m.place += len(batch)
	for _, e := range batch {
		m.seen = max(m.seen, e.revision)
	}
	switch {
	case ok && len(batch) > 0 && !stopped:
		return batch, lags, 0
	case ok && !g.over && !stopped && !m.leaving.Load():
		m.direct = true
		return nil, keepsUp, 0
	}
	delete(g.members, m)
	switch {
	case stopped || ok && g.failed:
		return nil, ended, 0
	case ok:
		return nil, leaves, max(m.from, g.window.high)
	default:
		return nil, leaves, max(m.from, m.seen)
	}
}
