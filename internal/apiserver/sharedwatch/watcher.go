package sharedwatch

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

const (
	// channelSize is how many events wait for a member before it is fed.
	channelSize = 64
	// deadlineMargin is how long before its deadline a member leaves for a watch of its own, which
	// brings a bookmark two seconds before the end.
	deadlineMargin = 5 * time.Second
)

// watcher is one watcher. Its channel is filled, and closed, by its group while direct, else by one
// goroutine of its own: feed or alone.
type watcher struct {
	storage      *Storage
	key          string
	groupKey     groupKey
	options      storage.ListOptions
	ctx          context.Context
	cancel       context.CancelFunc
	timer        *time.Timer // to the time to leave; nil if nothing is to be said then
	out          chan watch.Event
	group        atomic.Pointer[watchGroup]
	nearDeadline atomic.Bool
	refusedAt    time.Time // when the cache did not know its revision; of who opens watches for it

	startRevision uint64 // events up to here are not for it; fixed when it joins
	sentRevision  uint64 // up to where it was fed; guarded by the group's lock
	live          bool   // guarded by the group's lock, as is place
	position      int    // of the next event it is fed
}

func newWatcher(ctx context.Context, s *Storage, key string, o storage.ListOptions) *watcher {
	m := &watcher{storage: s, key: key, groupKey: groupKeyFor(ctx, key, &o.Predicate), options: o,
		out: make(chan watch.Event, channelSize)}
	m.ctx, m.cancel = context.WithCancel(ctx)
	if end, ok := ctx.Deadline(); ok && o.Predicate.AllowWatchBookmarks {
		m.timer = time.AfterFunc(time.Until(end)-deadlineMargin, m.onDeadline)
	}
	context.AfterFunc(m.ctx, m.onStop)
	return m
}

// ResultChan implements watch.Interface.
func (m *watcher) ResultChan() <-chan watch.Event { return m.out }

// Stop implements watch.Interface. The channel is closed, soon.
func (m *watcher) Stop() { m.cancel() }

// onStop is called once, when the member was stopped or its request is over.
func (m *watcher) onStop() {
	if m.timer != nil {
		m.timer.Stop()
	}
	if g := m.group.Load(); g != nil {
		if _, ok := g.removeWatcher(m); ok {
			close(m.out)
		}
	}
}

// onDeadline is called once, when the deadline is near.
func (m *watcher) onDeadline() {
	m.nearDeadline.Store(true)
	if g := m.group.Load(); g != nil {
		if seen, ok := g.removeWatcher(m); ok {
			m.resumeOwnWatch(seen)
		}
	}
}

// resumeOwnWatch goes on from a revision with a watch of one's own. It ends when the member is over
// or a group goes on for it.
func (m *watcher) resumeOwnWatch(seen uint64) {
	w, err := m.openOwnWatch(seen)
	if err != nil {
		close(m.out)
		return
	}
	m.runOwnWatch(w, seen)
}

// openOwnWatch opens a watch of one's own from a revision on.
func (m *watcher) openOwnWatch(seen uint64) (watch.Interface, error) {
	o := m.options
	o.ResourceVersion, o.ResourceVersionMatch, o.SendInitialEvents = formatRevision(seen), "", nil
	return m.storage.Interface.Watch(m.ctx, m.key, o)
}

// matches says whether an event is for the member. As in the library, a bookmark that tells nothing
// new since the beginning is not.
func (m *watcher) matches(e *entry) bool {
	return e.Type == watch.Error ||
		e.revision > m.startRevision && (e.Type != watch.Bookmark || m.options.Predicate.AllowWatchBookmarks)
}

// send waits until there is room for an event; false if the member was stopped.
func (m *watcher) send(e watch.Event) bool {
	select {
	case m.out <- e:
		return true
	case <-m.ctx.Done():
		return false
	}
}

// runOwnWatch passes on what a watch of one's own brings until the member is over, or until a group
// goes on where it is. The member knows all up to a revision; 0 is one that begins with the state
// of things, and cannot join before the bookmark that ends it. A watch that the cache cuts off, as
// it does when it has no room for an event, is opened anew where it was.
func (m *watcher) runOwnWatch(w watch.Interface, seen uint64) {
	for failures := 0; ; failures++ {
		started := time.Now()
		last, result := m.forward(w, seen)
		w.Stop()
		if last > seen || time.Since(started) >= minWatchDuration {
			failures = 0
		}
		seen = last
		if result == joinedGroup {
			return
		}
		var err error
		if result == watcherDone || seen == 0 || failures >= maxReopens {
			break
		}
		if w, err = m.openOwnWatch(seen); err != nil {
			break
		}
	}
	close(m.out)
}

// forwardResult is how it ends that a member is passed what a watch of its own brings.
type forwardResult int

const (
	watchClosed forwardResult = iota // the watch has ended, though nobody wanted it to
	joinedGroup                      // a group goes on
	watcherDone                      // the member was stopped, or got an error
)

// forward passes on what a watch brings, and says up to where; see alone.
func (m *watcher) forward(w watch.Interface, seen uint64) (uint64, forwardResult) {
	for {
		select {
		case e, ok := <-w.ResultChan():
			switch {
			case !ok && m.ctx.Err() == nil:
				return seen, watchClosed
			case !ok || !m.send(e) || e.Type == watch.Error:
				return seen, watcherDone
			}
			if seen == 0 && !isInitialEventsEnd(e) {
				continue
			}
			seen = max(seen, m.eventRevision(e))
			if !m.nearDeadline.Load() && m.storage.join(m, seen) != nil {
				return seen, joinedGroup
			}
		case <-m.ctx.Done():
			return seen, watcherDone
		}
	}
}

// sendInitialState tells a member of the state of things at a revision, and goes on from there.
func (m *watcher) sendInitialState(state []runtime.Object, at uint64) {
	for n, o := range state {
		if !m.send(watch.Event{Type: watch.Added, Object: newCachingObject(o)}) {
			close(m.out)
			return
		}
		state[n] = nil
	}
	if m.options.SendInitialEvents != nil && m.options.Predicate.AllowWatchBookmarks {
		e, err := m.storage.initialEventsEnd(at)
		if err != nil || !m.send(e) {
			close(m.out)
			return
		}
	}
	if m.nearDeadline.Load() || m.storage.join(m, at) == nil {
		m.resumeOwnWatch(at)
	}
}

// isInitialEventsEnd says that an event ends the state of things.
func isInitialEventsEnd(e watch.Event) bool {
	if e.Type != watch.Bookmark {
		return false
	}
	last, err := storage.HasInitialEventsEndBookmarkAnnotation(e.Object)
	return err == nil && last
}

// eventRevision is that of an event; 0 if it has none.
func (m *watcher) eventRevision(e watch.Event) uint64 {
	if e.Type == watch.Error {
		return 0
	}
	r, err := m.storage.versioner.ObjectResourceVersion(e.Object)
	if err != nil {
		return 0
	}
	return r
}

// catchUp gives a member what it lags behind, until it keeps up again.
func (m *watcher) catchUp(g *watchGroup) {
	batch := make([]entry, 0, batchSize)
	for {
		events, result, seen := g.nextBatch(m, batch)
		for n := range events {
			if m.matches(&events[n]) && !m.send(events[n].watchEvent()) {
				break // stopped, which is what comes next
			}
		}
		switch result {
		case caughtUp:
			return
		case detached:
			g.closeIfEmpty()
			m.resumeOwnWatch(seen)
			return
		case stoppedOrFailed:
			g.closeIfEmpty()
			close(m.out)
			return
		}
	}
}
