package fanout

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

const (
	// room is how many events wait for a member before it is fed.
	room = 64
	// lastWord is how long before its deadline a member leaves for a watch of its own, which brings
	// a bookmark two seconds before the end.
	lastWord = 5 * time.Second
)

// member is one watcher. Its channel is filled, and closed, by its group while direct, else by one
// goroutine of its own: feed or alone.
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
	seen   uint64 // up to where it was fed; guarded by the group's lock
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

// again goes on from a revision with a watch of one's own. It ends when the member is over or a
// group goes on for it.
func (m *member) again(seen uint64) {
	w, err := m.own(seen)
	if err != nil {
		close(m.out)
		return
	}
	m.alone(w, seen)
}

// own opens a watch of one's own from a revision on.
func (m *member) own(seen uint64) (watch.Interface, error) {
	o := m.options
	o.ResourceVersion, o.ResourceVersionMatch, o.SendInitialEvents = revision(seen), "", nil
	return m.of.Interface.Watch(m.ctx, m.key, o)
}

// wants says whether an event is for the member. As in the library, a bookmark that tells nothing
// new since the beginning is not.
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

// alone passes on what a watch of one's own brings until the member is over, or until a group goes
// on where it is. The member knows all up to a revision; 0 is one that begins with the state of
// things, and cannot join before the bookmark that ends it. A watch that the cache cuts off, as it
// does when it has no room for an event, is opened anew where it was.
func (m *member) alone(w watch.Interface, seen uint64) {
	for vain := 0; ; vain++ {
		began := time.Now()
		last, then := m.pass(w, seen)
		w.Stop()
		if last > seen || time.Since(began) >= patience {
			vain = 0
		}
		seen = last
		if then == joined {
			return
		}
		var err error
		if then == over || seen == 0 || vain >= attempts {
			break
		}
		if w, err = m.own(seen); err != nil {
			break
		}
	}
	close(m.out)
}

// passing is how it ends that a member is passed what a watch of its own brings.
type passing int

const (
	cutOff passing = iota // the watch has ended, though nobody wanted it to
	joined                // a group goes on
	over                  // the member was stopped, or got an error
)

// pass passes on what a watch brings, and says up to where; see alone.
func (m *member) pass(w watch.Interface, seen uint64) (uint64, passing) {
	for {
		select {
		case e, ok := <-w.ResultChan():
			switch {
			case !ok && m.ctx.Err() == nil:
				return seen, cutOff
			case !ok || !m.put(e) || e.Type == watch.Error:
				return seen, over
			}
			if seen == 0 && !ends(e) {
				continue
			}
			seen = max(seen, m.revision(e))
			if !m.leaving.Load() && m.of.join(m, seen) != nil {
				return seen, joined
			}
		case <-m.ctx.Done():
			return seen, over
		}
	}
}

// tell tells a member of the state of things at a revision, and goes on from there.
func (m *member) tell(state []runtime.Object, at uint64) {
	for n, o := range state {
		if !m.put(watch.Event{Type: watch.Added, Object: sharable(o)}) {
			close(m.out)
			return
		}
		state[n] = nil
	}
	if m.options.SendInitialEvents != nil && m.options.Predicate.AllowWatchBookmarks {
		e, err := m.of.endOfState(at)
		if err != nil || !m.put(e) {
			close(m.out)
			return
		}
	}
	if m.leaving.Load() || m.of.join(m, at) == nil {
		m.again(at)
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
