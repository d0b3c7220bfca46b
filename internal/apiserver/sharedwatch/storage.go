package sharedwatch

import (
	"context"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
)

// Storage is a storage.Interface whose Watch shares watches of a cache; all else is passed on. Safe
// for concurrent use once WithInitialEvents was called.
type Storage struct {
	storage.Interface       // for watches that are not shared, and all calls but Watch
	cache             Cache // what groups watch
	versioner         storage.Versioner
	newObject         func() runtime.Object // nil: initial states come from the Interface's watch
	newList           func() runtime.Object
	mu                sync.Mutex // guards groups; locked before a group's mu, never after
	groups            map[groupKey]*watchGroup
}

// Cache is the watch cache that groups watch. Its Watch, or the first event of its channel, refuses
// at once a revision that the cache no longer holds.
type Cache interface {
	Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error)
}

// New returns a Storage over own that shares watches of cache. A watcher that cannot share, or
// cannot share yet, watches own.
func New(own storage.Interface, cache Cache) *Storage {
	return &Storage{Interface: own, cache: cache, versioner: own.Versioner(), groups: map[groupKey]*watchGroup{}}
}

// WithInitialEvents makes Watch send the initial state (sendInitialEvents, or a resourceVersion of
// "" or "0") from a list, with the kind's constructors; it returns s. Without it, or if the list
// fails, own's watch sends it; the cacher terminates such a watch if writes come faster than the
// client reads the state. Call it before the first Watch.
func (s *Storage) WithInitialEvents(newObject, newList func() runtime.Object) *Storage {
	s.newObject, s.newList = newObject, newList
	return s
}

// groupKey identifies watchers that get the same events: what is watched and by which selectors.
type groupKey struct {
	key, namespace string
	labels, fields string
	matchesNothing bool // a selector matches nothing; its text is "", like that of one that matches all
}

// groupKeyFor returns the key of a watch request; the namespace is that of ctx.
func groupKeyFor(ctx context.Context, key string, p *storage.SelectionPredicate) groupKey {
	ns, _ := request.NamespaceFrom(ctx)
	s := groupKey{key: key, namespace: ns, labels: p.Label.String(), fields: p.Field.String()}
	s.matchesNothing = s.labels == "" && !p.Label.Empty() || s.fields == "" && !p.Field.Empty()
	return s
}

// shareMode says whether a watcher joins a group, and when.
type shareMode int

const (
	shareNever      shareMode = iota
	shareNow                  // at once, from the requested resourceVersion
	shareAfterList            // after the initial state, which ends with a bookmark
	shareAfterState           // after the initial state, which ends without a bookmark
)

// shareMode returns how a watch request shares, and for shareNow its revision. Watches of a single
// object, of a shard, with an unparsable resourceVersion or with little time left do not share.
func (s *Storage) shareMode(ctx context.Context, o *storage.ListOptions) (shareMode, uint64) {
	p := &o.Predicate
	if !o.Recursive || p.Label == nil || p.Field == nil || p.ShardSelector != nil && !p.ShardSelector.Empty() {
		return shareNever, 0
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < 2*deadlineMargin {
		return shareNever, 0
	}
	if o.SendInitialEvents != nil {
		switch {
		case *o.SendInitialEvents && p.AllowWatchBookmarks: // a bookmark marks the end of the initial state
			return shareAfterList, 0
		case *o.SendInitialEvents:
			return shareAfterState, 0
		}
		return shareNever, 0
	}
	switch from, err := s.versioner.ParseResourceVersion(o.ResourceVersion); {
	case err != nil:
		return shareNever, 0
	case from == 0: // the initial state, as the cache has it
		return shareAfterState, 0
	default:
		return shareNow, from
	}
}

// Watch implements storage.Interface. An error is that of the underlying storage's Watch; all that
// goes wrong later arrives as an event or closes the channel.
func (s *Storage) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	mode, from := s.shareMode(ctx, &o)
	var state []runtime.Object
	known := false
	if mode == shareAfterList || mode == shareAfterState {
		if state, from, known = s.initialState(ctx, key, o); !known && mode == shareAfterState {
			mode = shareNever
		}
	}
	if mode == shareNever {
		return s.Interface.Watch(ctx, key, o)
	}
	m := newWatcher(ctx, s, key, o)
	switch {
	case known:
		utilflowcontrol.WatchInitialized(ctx)
		go m.sendInitialState(state, from)
		return m, nil
	case mode == shareNow:
		if g := s.join(m, from); g != nil {
			utilflowcontrol.WatchInitialized(ctx)
			return m, nil
		}
	}
	w, err := s.Interface.Watch(m.ctx, key, o)
	if err != nil {
		m.Stop()
		return nil, err
	}
	go m.runOwnWatch(w, from)
	return m, nil
}

// initialState lists the objects that a watch starts with and returns them with the list's
// revision. It returns false if it cannot; the caller then opens the underlying watch, which
// reports the error in the library's words.
func (s *Storage) initialState(ctx context.Context, key string,
	o storage.ListOptions) ([]runtime.Object, uint64, bool) {
	if s.newList == nil {
		return nil, 0, false
	}
	if o.SendInitialEvents == nil {
		o.ResourceVersion = "0"
	}
	of := storage.ListOptions{ResourceVersion: o.ResourceVersion, Recursive: true, Predicate: o.Predicate}
	if o.ResourceVersion != "" {
		of.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	list := s.newList()
	if err := s.GetList(ctx, key, of, list); err != nil {
		return nil, 0, false
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, 0, false
	}
	at, err := s.versioner.ParseResourceVersion(m.GetResourceVersion())
	if err != nil || at == 0 {
		return nil, 0, false
	}
	state, err := meta.ExtractList(list)
	return state, at, err == nil
}

// initialEventsEnd returns the bookmark with the annotation k8s.io/initial-events-end for a
// revision.
func (s *Storage) initialEventsEnd(at uint64) (watch.Event, error) {
	o := s.newObject()
	if err := s.versioner.UpdateObject(o, at); err != nil {
		return watch.Event{}, err
	}
	return watch.Event{Type: watch.Bookmark, Object: o}, storage.AnnotateInitialEventsEndBookmark(o)
}

// join adds m, which has seen all events up to the revision from, to the group of its key, and
// starts the group if there is none. It returns nil if the group's window, or the cache, does not
// reach back to from, or if m has stopped. On success the group owns m.out: the caller must not
// send to it or close it any more.
func (s *Storage) join(m *watcher, from uint64) *watchGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[m.groupKey]
	if g == nil {
		if g = s.newGroup(m, from); g == nil {
			return nil
		}
		s.groups[m.groupKey] = g
		go g.run()
	}
	if !g.addWatcher(m, from) {
		g.closeIfEmptyLocked()
		return nil
	}
	return g
}

// newGroup returns a group that knows all events after the revision from, with its watch opened, or
// nil if the cache does not reach back that far. A watcher that was refused does not try again
// within minWatchDuration. s.mu is held.
func (s *Storage) newGroup(m *watcher, from uint64) *watchGroup {
	if time.Since(m.refusedAt) < minWatchDuration {
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	if m.groupKey.namespace != "" {
		ctx = request.WithNamespace(ctx, m.groupKey.namespace)
	}
	o := m.options
	o.SendInitialEvents, o.ResourceVersionMatch = nil, ""
	o.Predicate.AllowWatchBookmarks = true
	g := &watchGroup{storage: s, key: m.groupKey, options: o, ctx: ctx, cancel: stop, watchers: map[*watcher]struct{}{},
		window: eventWindow{lowRevision: from, highRevision: from}}
	if g.watch, g.pending = g.openWatch(); g.watch == nil {
		stop()
		m.refusedAt = time.Now()
		return nil
	}
	return g
}

func formatRevision(n uint64) string { return strconv.FormatUint(n, 10) }
