package fanout

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

const (
	// room is how many events wait for a member before it is fed.
	room = 64
	// lastWord is how long before its deadline a member leaves for a watch of its own, which brings a bookmark two seconds before the end.
	lastWord = 5 * time.Second
)

// member is one watcher. Its channel is filled, and closed, by its group while direct, else by one goroutine of its own: feed or alone.
type member struct {
	of      *Storage
	key     string
	scope   scope
	options storage.ListOptions
	ctx     context.Context
	cancel  context.CancelFunc
	timer   *time.Timer // to the time to leave; nil if nothing is to be said then
	out     chan watch.Event
	group   atomic.Pointer[group]
	leaving atomic.Bool
	refused time.Time // when the cache did not know its revision; of who opens watches for it

	from   uint64 // events up to here are not for it; fixed when it joins
	direct bool   // guarded by the group's lock, as is place
	place  int    // of the next event it is fed
}

func newMember(ctx context.Context, s *Storage, key string, o storage.ListOptions) *member {
	m := &member{of: s, key: key, scope: scopeOf(ctx, key, &o.Predicate), options: o, out: make(chan watch.Event, room)}
	m.ctx, m.cancel = context.WithCancel(ctx)
	if end, ok := ctx.Deadline(); ok && o.Predicate.AllowWatchBookmarks {
		m.timer = time.AfterFunc(time.Until(end)-lastWord, m.leave)
	}
	context.AfterFunc(m.ctx, m.stopped)
	return m
}

// ResultChan implements watch.Interface.
func (m *member) ResultChan() <-chan watch.Event { return m.out }

// Stop implements watch.Interface. The channel is closed, soon.
func (m *member) Stop() { m.cancel() }

// stopped is called once, when the member was stopped or its request is over.
func (m *member) stopped() {
	if m.timer != nil {
		m.timer.Stop()
	}
	if g := m.group.Load(); g != nil {
		if _, ok := g.release(m); ok {
			close(m.out)
		}
	}
}

// leave is called once, when the deadline is near.
func (m *member) leave() {
	m.leaving.Store(true)
	if g := m.group.Load(); g != nil {
		if seen, ok := g.release(m); ok {
			m.again(seen)
		}
	}
}

// again goes on from a revision with a watch of one's own.
func (m *member) again(seen uint64) {
	o := m.options
	o.ResourceVersion, o.ResourceVersionMatch, o.SendInitialEvents = revision(seen), "", nil
	w, err := m.of.Interface.Watch(m.ctx, m.key, o)
	if err != nil {
		close(m.out)
		return
	}
	m.alone(w, false)
}

// wants says whether an event is for the member. As in the library, a bookmark that tells nothing new since the beginning is not.
func (m *member) wants(e *entry) bool {
	return e.Type == watch.Error || e.revision > m.from && (e.Type != watch.Bookmark || m.options.Predicate.AllowWatchBookmarks)
}

// put waits until there is room for an event; false if the member was stopped.
func (m *member) put(e watch.Event) bool {
	select {
	case m.out <- e:
		return true
	case <-m.ctx.Done():
		return false
	}
}

// alone passes on what a watch of one's own brings until it ends, or until a group goes on where it is. Who begins with the state of things cannot join before the
// bookmark that ends it.
func (m *member) alone(w watch.Interface, ordered bool) {
	defer w.Stop()
	for {
		select {
		case e, ok := <-w.ResultChan():
			if !ok || !m.put(e) {
				close(m.out)
				return
			}
			at := m.revision(e)
			if ordered = ordered || ends(e); ordered && at > 0 && !m.leaving.Load() && m.of.join(m, at) != nil {
				return
			}
		case <-m.ctx.Done():
			close(m.out)
			return
		}
	}
}

// ends says that an event ends the state of things.
func ends(e watch.Event) bool {
	if e.Type != watch.Bookmark {
		return false
	}
	last, err := storage.HasInitialEventsEndBookmarkAnnotation(e.Object)
	return err == nil && last
}

// revision is that of an event; 0 if it has none.
func (m *member) revision(e watch.Event) uint64 {
	if e.Type == watch.Error {
		return 0
	}
	r, err := m.of.versioner.ObjectResourceVersion(e.Object)
	if err != nil {
		return 0
	}
	return r
}

// feed gives a member what it lags behind, until it keeps up again.
func (m *member) feed(g *group) {
	batch := make([]entry, 0, gulp)
	for {
		events, then, seen := g.next(m, batch)
		for n := range events {
			if m.wants(&events[n]) && !m.put(events[n].own()) {
				break // stopped, which is what comes next
			}
		}
		switch then {
		case keepsUp:
			return
		case leaves:
			g.shrink()
			m.again(seen)
			return
		case ended:
			g.shrink()
			close(m.out)
			return
		}
	}
}
