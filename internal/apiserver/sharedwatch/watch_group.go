package sharedwatch

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

const (
	// minWatchDuration is how long a watch that brings nothing must last; it is opened anew so
	// often when it ends sooner.
	minWatchDuration = time.Second
	maxReopens       = 4
	// batchSize is how many events a group takes, or a member is fed, at once.
	batchSize = 64
)

// watchGroup is the members of a scope with the watch that they share.
type watchGroup struct {
	storage *Storage
	key     groupKey
	options storage.ListOptions
	ctx     context.Context // of the watch
	cancel  context.CancelFunc
	watch   watch.Interface // touched by run alone
	pending []watch.Event   // taken out of it already

	mu       sync.Mutex
	window   eventWindow
	watchers map[*watcher]struct{}
	closed   bool // no event comes any more
	failed   bool // the last one was an error
}

// openWatch watches the cache from what the group knows on; nil if the cache does not know what
// comes next.
func (g *watchGroup) openWatch() (watch.Interface, []watch.Event) {
	o := g.options
	o.ResourceVersion = formatRevision(g.window.highRevision)
	w, err := g.storage.cache.Watch(g.ctx, g.key.key, o)
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

// run hands out what comes. When the cache ends the watch, as it does when it has no room for an
// event, another one goes on from there: the window says where.
func (g *watchGroup) run() {
	for failures := 0; g.watch != nil && failures < maxReopens; failures++ {
		started := time.Now()
		received, failed := g.dispatchAll()
		g.watch.Stop()
		g.watch = nil
		if received || time.Since(started) >= minWatchDuration {
			failures = 0
		}
		if !failed && g.ctx.Err() == nil {
			g.watch, g.pending = g.openWatch()
		}
	}
	if g.watch != nil {
		g.watch.Stop()
	}
	g.detachWatchers()
}

// dispatchAll hands out what the watch brings until it ends, and says whether it brought anything,
// an error last.
func (g *watchGroup) dispatchAll() (received, failed bool) {
	batch := make([]entry, 0, batchSize)
	for ok := true; ok && !failed; {
		batch = batch[:0]
		for _, e := range g.pending {
			batch = append(batch, g.newEntry(e))
		}
		g.pending = nil
		if batch, ok = g.readBatch(batch); len(batch) > 0 {
			received = true
			failed = batch[len(batch)-1].Type == watch.Error
			g.dispatch(batch)
			clear(batch)
		}
	}
	return received, failed
}

// readBatch waits for an event unless there is one, and takes what else is there; false says that
// the watch has ended.
func (g *watchGroup) readBatch(batch []entry) ([]entry, bool) {
	in := g.watch.ResultChan()
	if len(batch) == 0 {
		e, ok := <-in
		if !ok {
			return batch, false
		}
		batch = append(batch, g.newEntry(e))
	}
	for len(batch) < cap(batch) && batch[len(batch)-1].Type != watch.Error {
		select {
		case e, ok := <-in:
			if !ok {
				return batch, false
			}
			batch = append(batch, g.newEntry(e))
		default:
			return batch, true
		}
	}
	return batch, true
}

// newEntry is an event as the group keeps it. All but errors have a revision.
func (g *watchGroup) newEntry(e watch.Event) entry {
	if e.Type == watch.Error {
		return entry{Event: e}
	}
	if e.Type != watch.Bookmark {
		e.Object = newCachingObject(e.Object)
	}
	r, _ := g.storage.versioner.ObjectResourceVersion(e.Object)
	return entry{Event: e, revision: r}
}

// dispatch gives events to the members that keep up, and keeps them for the others.
func (g *watchGroup) dispatch(batch []entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.window.endIndex()
	for _, e := range batch {
		g.window.add(e)
		g.failed = e.Type == watch.Error
	}
	needed := g.window.endIndex()
	for m := range g.watchers {
		if m.live {
			g.trySend(m, at, batch)
		}
		if !m.live {
			needed = min(needed, m.position)
		}
	}
	g.window.trim(needed)
}

// trySend gives events, the first of which has the number at, to a member that keeps up. If it has
// no room for them it does not any more.
func (g *watchGroup) trySend(m *watcher, at int, batch []entry) {
	for n := range batch {
		if !m.matches(&batch[n]) {
			continue
		}
		select {
		case m.out <- batch[n].watchEvent():
		default:
			m.live, m.position = false, at+n
			go m.catchUp(g)
			return
		}
	}
}

// watchEvent is the event as one watcher gets it: what cannot be shared is copied.
func (e *entry) watchEvent() watch.Event {
	if e.Type == watch.Bookmark || e.Type == watch.Error {
		return watch.Event{Type: e.Type, Object: e.Object.DeepCopyObject()}
	}
	return e.Event
}

// addWatcher takes a member who knows all up to a revision, if the window reaches back so far.
func (g *watchGroup) addWatcher(m *watcher, from uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || from < g.window.lowRevision {
		return false
	}
	m.group.Store(g)
	// asked after it is known where the member is, as Stop and leave look there after they say so
	if m.ctx.Err() != nil || m.nearDeadline.Load() {
		m.group.Store(nil)
		return false
	}
	m.startRevision = from
	g.watchers[m] = struct{}{}
	if m.live = from >= g.window.highRevision; !m.live {
		m.position = g.window.firstIndex
		go m.catchUp(g)
	}
	return true
}

// removeWatcher lets a member go whom the group hands events itself, and returns what it has seen
// all of; false if somebody else fills its channel.
func (g *watchGroup) removeWatcher(m *watcher) (seen uint64, ok bool) {
	g.mu.Lock()
	if ok = m.live; ok {
		m.live = false
		delete(g.watchers, m)
	}
	seen = max(m.startRevision, g.window.highRevision)
	g.mu.Unlock()
	g.closeIfEmpty()
	return seen, ok
}

// closeIfEmpty ends the group when nobody is left.
func (g *watchGroup) closeIfEmpty() {
	g.storage.mu.Lock()
	defer g.storage.mu.Unlock()
	g.closeIfEmptyLocked()
}

func (g *watchGroup) closeIfEmptyLocked() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.watchers) == 0 {
		g.closeLocked()
	}
}

// detachWatchers lets the group's members go on with watches of their own, those that lag when they
// have got what there is. After an error they end.
func (g *watchGroup) detachWatchers() {
	g.storage.mu.Lock()
	defer g.storage.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closeLocked()
	for m := range g.watchers {
		if m.live {
			m.live = false
			delete(g.watchers, m)
			if g.failed {
				close(m.out)
			} else {
				go m.resumeOwnWatch(max(m.startRevision, g.window.highRevision))
			}
		}
	}
}

// closeLocked lets nobody join any more. Both locks are held.
func (g *watchGroup) closeLocked() {
	g.closed = true
	g.cancel()
	if g.storage.groups[g.key] == g {
		delete(g.storage.groups, g.key)
	}
}

// catchUpState is what becomes of a member that is fed.
type catchUpState int

const (
	behind   catchUpState = iota // there is more
	caughtUp                     // the group hands it events again
	// it goes on with a watch of its own: it is near its end, has fallen out of the window, or the
	// group is over
	detached
	stoppedOrFailed // it was stopped, or got an error
)

// nextBatch takes what a member is fed next. Only when there is nothing is it anything but lagging,
// unless it was stopped: then it gets nothing more, as what follows an event that it did not get is
// not for it.
func (g *watchGroup) nextBatch(m *watcher, batch []entry) ([]entry, catchUpState, uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	stopped := m.ctx.Err() != nil
	batch, ok := g.window.eventsFrom(m.position, batch)
	m.position += len(batch)
	for _, e := range batch {
		m.sentRevision = max(m.sentRevision, e.revision)
	}
	switch {
	case ok && len(batch) > 0 && !stopped:
		return batch, behind, 0
	case ok && !g.closed && !stopped && !m.nearDeadline.Load():
		m.live = true
		return nil, caughtUp, 0
	}
	delete(g.watchers, m)
	switch {
	case stopped || ok && g.failed:
		return nil, stoppedOrFailed, 0
	case ok:
		return nil, detached, max(m.startRevision, g.window.highRevision)
	default:
		return nil, detached, max(m.startRevision, m.sentRevision)
	}
}
