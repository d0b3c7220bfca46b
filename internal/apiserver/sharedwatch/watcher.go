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
	// channelSize is how many events a watcher's channel holds; when it is full, catchUp takes
	// over.
	channelSize = 64
	// deadlineMargin is how long before its deadline a watcher leaves its group for an own watch,
	// which delivers the library's bookmark two seconds before the end.
	deadlineMargin = 5 * time.Second
)

// watcher is the watch.Interface of one request. Its states, and in parentheses the goroutine that
// alone sends to its channel and may close it:
//
//	Watch --- wants the initial state ---> initial state (sendInitialState)
//	  |                                      |
//	  '------ from a revision --------> join <------------ caught up ----------.
//	                                   |    |                                  |
//	            window reaches back to |    | it does not, or                   |
//	            the revision           |    | no group can be made              |
//	                                   v    '-------------------> own watch ---'
//	  .--- channel full --- live (watchGroup.run) ---.          (runOwnWatch)
//	  v                      ^                       |                ^
//	lagging (catchUp) --- caught up                  |                |
//	  |                                              |                |
//	  '--- out of the window ------------------------+----------------'
//	                        deadline near, or the group's watch lost
//
//	any state --- stopped, request over, or an Error event sent ---> channel closed
//
// Near the deadline an own watch stays one.
type watcher struct {
	storage      *Storage
	key          string
	groupKey     groupKey
	options      storage.ListOptions
	ctx          context.Context
	cancel       context.CancelFunc
	timer        *time.Timer // calls onDeadline; nil without a deadline or bookmarks
	out          chan watch.Event
	group        atomic.Pointer[watchGroup]
	nearDeadline atomic.Bool
	refusedAt    time.Time // when newGroup last failed; used by the goroutine that calls join

	startRevision uint64 // it has seen the events up to here; set when it joins a group
	sentRevision  uint64 // up to where catchUp has fed it; guarded by the group's mu
	live          bool   // guarded by the group's mu, like position
	position      int    // window index of the next event that catchUp feeds
}

// newWatcher returns a watcher in no state yet: the caller joins it to a group or starts one of its
// goroutines. It ends when ctx does.
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

// Stop implements watch.Interface. The channel is closed soon after, not before it returns.
func (m *watcher) Stop() { m.cancel() }

// onStop runs once, when Stop was called or the request's context has ended. It closes the channel
// of a live watcher; in the other states the goroutine that owns the channel does.
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

// onDeadline runs once, deadlineMargin before the deadline. A live watcher changes to an own watch
// here; the other states see nearDeadline.
func (m *watcher) onDeadline() {
	m.nearDeadline.Store(true)
	if g := m.group.Load(); g != nil {
		if seen, ok := g.removeWatcher(m); ok {
			m.resumeOwnWatch(seen)
		}
	}
}

// resumeOwnWatch continues after the revision seen with an own watch. It owns the channel and
// returns when the watcher has ended or joined a group.
func (m *watcher) resumeOwnWatch(seen uint64) {
	w, err := m.openOwnWatch(seen)
	if err != nil {
		close(m.out)
		return
	}
	m.runOwnWatch(w, seen)
}

// openOwnWatch opens a watch of the underlying storage after the revision seen.
func (m *watcher) openOwnWatch(seen uint64) (watch.Interface, error) {
	o := m.options
	o.ResourceVersion, o.ResourceVersionMatch, o.SendInitialEvents = formatRevision(seen), "", nil
	return m.storage.Interface.Watch(m.ctx, m.key, o)
}

// matches reports whether the watcher gets an event. As in the library, it gets bookmarks only if
// it asked for them and they are newer than its start.
func (m *watcher) matches(e *entry) bool {
	return e.Type == watch.Error ||
		e.revision > m.startRevision && (e.Type != watch.Bookmark || m.options.Predicate.AllowWatchBookmarks)
}

// send waits until there is room for an event; false if the watcher was stopped.
func (m *watcher) send(e watch.Event) bool {
	select {
	case m.out <- e:
		return true
	case <-m.ctx.Done():
		return false
	}
}

// runOwnWatch forwards the events of w until the watcher has ended, which closes its channel, or a
// group has taken over. seen is the revision up to which the watcher has seen all; 0 while w sends
// the initial state, during which the watcher can neither join a group nor reopen w. If the cache
// terminates w, as it does when a channel is full, a new one is opened after seen: at most
// maxReopens times in a row without progress.
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

// forwardResult is why forward returned.
type forwardResult int

const (
	watchClosed forwardResult = iota // the cache has terminated the watch
	joinedGroup                      // a group owns the channel now
	watcherDone                      // the watcher was stopped, or an Error event was sent
)

// forward sends the events of w until w ends or a group takes over, and returns the revision up to
// which the watcher has seen all; see runOwnWatch.
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

// sendInitialState sends the objects of a list as Added events, then the closing bookmark if the
// client wants one, then joins a group after the list's revision or resumes with an own watch. It
// owns the channel and clears state as it sends.
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

// isInitialEventsEnd reports whether e is the bookmark that ends the initial state.
func isInitialEventsEnd(e watch.Event) bool {
	if e.Type != watch.Bookmark {
		return false
	}
	last, err := storage.HasInitialEventsEndBookmarkAnnotation(e.Object)
	return err == nil && last
}

// eventRevision returns the resourceVersion of an event's object; 0 for errors and where there is
// none.
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

// catchUp feeds a lagging watcher from the group's window until nextBatch says how it continues. It
// owns the channel meanwhile.
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
