package sharedwatch

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

const (
	// minWatchDuration is how long a watch without events must last to count as a success; a watch
	// is reopened maxReopens times in a row when it ends sooner.
	minWatchDuration = time.Second
	maxReopens       = 4
	// batchSize is how many events a group reads, or catchUp feeds, at once.
	batchSize = 64
)

// watchGroup is one watch of the cache with the watchers that share it. It lives from the first
// join until its last watcher leaves or its watch is lost; run is its goroutine.
type watchGroup struct {
	storage *Storage
	key     groupKey
	options storage.ListOptions
	ctx     context.Context // of the watch
	cancel  context.CancelFunc
	watch   watch.Interface // used by run alone once it has started
	pending []watch.Event   // read from watch by openWatch

	mu       sync.Mutex
	window   eventWindow
	watchers map[*watcher]struct{}
	closed   bool // no watcher may join and no event comes any more
	failed   bool // the last event was an Error
}

// openWatch watches the cache after the window's last revision; nil if the cache no longer holds
// what comes next. It returns the event, if any, that it had to read to find out.
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

// run dispatches the events of the watch until the group is closed. If the cache terminates the
// watch, as it does when a channel is full, another one is opened after the window's last revision.
// When that fails too, the watchers continue with own watches.
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

// dispatchAll adds events to the window, sends them to the live watchers and trims the window to
// what the lagging ones still need.
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

// readBatch appends events to batch: all that are there, at most cap(batch), and waits for one if
// batch is empty. false: the watch has ended.
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

// newEntry returns the event as the window stores it. Only Error events have no revision.
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

// trySend sends events, the first of which has the window index at, to a live watcher without
// waiting. A watcher whose channel is full becomes lagging. g.mu is held.
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

// watchEvent returns the event for one watcher. Bookmarks and errors are copied, as receivers may
// change them; the others share a cachingObject.
func (e *entry) watchEvent() watch.Event {
	if e.Type == watch.Bookmark || e.Type == watch.Error {
		return watch.Event{Type: e.Type, Object: e.Object.DeepCopyObject()}
	}
	return e.Event
}

// addWatcher adds a watcher that has seen all events up to the revision from, live or lagging;
// false if the group is closed, its window does not reach back that far, or the watcher has ended.
// s.mu is held.
func (g *watchGroup) addWatcher(m *watcher, from uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || from < g.window.lowRevision {
		return false
	}
	m.group.Store(g)
	// checked after m.group is set: onStop and onDeadline load m.group after they set these
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

// removeWatcher removes a live watcher and returns the revision up to which it has seen all; the
// caller owns its channel then. ok is false for a lagging one: catchUp owns its channel.
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

// closeIfEmpty closes the group if no watcher is left. Neither lock is held.
func (g *watchGroup) closeIfEmpty() {
	g.storage.mu.Lock()
	defer g.storage.mu.Unlock()
	g.closeIfEmptyLocked()
}

// closeIfEmptyLocked is closeIfEmpty with the storage's mu held.
func (g *watchGroup) closeIfEmptyLocked() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.watchers) == 0 {
		g.closeLocked()
	}
}

// detachWatchers closes the group. Live watchers continue with own watches, lagging ones when they
// have got the rest of the window; after an Error event their channels are closed instead.
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

// closeLocked stops the watch and lets no watcher join any more. Both locks are held.
func (g *watchGroup) closeLocked() {
	g.closed = true
	g.cancel()
	if g.storage.groups[g.key] == g {
		delete(g.storage.groups, g.key)
	}
}

// catchUpState is how a lagging watcher continues.
type catchUpState int

const (
	behind   catchUpState = iota // there are events to send
	caughtUp                     // it is live again: the group owns its channel
	// it continues with an own watch: its deadline is near, it has fallen out of the window, or the
	// group is closed
	detached
	stoppedOrFailed // it was stopped, or got an Error event: its channel is closed
)

// nextBatch fills batch with the next events of a lagging watcher. While there are events, and the
// watcher was not stopped, the state is behind; a stopped watcher gets nothing more, so that it
// never sees an event after one it missed. The revision is set for detached: where the own watch
// starts.
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
