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

// Storage is a storage whose watchers share watches of a cache.
type Storage struct {
	storage.Interface       // for watches of one's own, and all but watches
	cache             Cache // for groups
	versioner         storage.Versioner
	newObject         func() runtime.Object // nil where states are not told
	newList           func() runtime.Object
	mu                sync.Mutex // before a group's
	groups            map[groupKey]*watchGroup
}

// Cache is where groups watch. It says at once that it does not know a revision.
type Cache interface {
	Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error)
}

// New shares watches of a cache. A watcher that cannot share, or not yet, watches the storage
// itself.
func New(own storage.Interface, cache Cache) *Storage {
	return &Storage{Interface: own, cache: cache, versioner: own.Versioner(), groups: map[groupKey]*watchGroup{}}
}

// WithInitialEvents has watchers that begin with the state of things told it from a list. A watch
// of their own would be cut off where writes come faster than the state is read.
func (s *Storage) WithInitialEvents(newObject, newList func() runtime.Object) *Storage {
	s.newObject, s.newList = newObject, newList
	return s
}

// groupKey is what watchers must have in common to get the same events.
type groupKey struct {
	key, namespace string
	labels, fields string
	matchesNothing bool // a selector chooses nothing, which is written as the one that chooses everything
}

func groupKeyFor(ctx context.Context, key string, p *storage.SelectionPredicate) groupKey {
	ns, _ := request.NamespaceFrom(ctx)
	s := groupKey{key: key, namespace: ns, labels: p.Label.String(), fields: p.Field.String()}
	s.matchesNothing = s.labels == "" && !p.Label.Empty() || s.fields == "" && !p.Field.Empty()
	return s
}

// shareMode is whether and how a watcher may share.
type shareMode int

const (
	shareNever      shareMode = iota
	shareNow                  // from the revision it names
	shareAfterList            // when it has got the state of things, which a bookmark ends
	shareAfterState           // when it has got the state of things, which nothing ends for it
)

// shareMode says how a watcher of many objects shares, and from which revision. Who watches one
// object, wants a part of the objects by their hash or has little time does not.
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
		case *o.SendInitialEvents && p.AllowWatchBookmarks: // a bookmark says when the state was told
			return shareAfterList, 0
		case *o.SendInitialEvents:
			return shareAfterState, 0
		}
		return shareNever, 0
	}
	switch from, err := s.versioner.ParseResourceVersion(o.ResourceVersion); {
	case err != nil:
		return shareNever, 0
	case from == 0: // the state of things, as the cache has it
		return shareAfterState, 0
	default:
		return shareNow, from
	}
}

// Watch implements volumelisters.Interface.
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

// initialState lists what a watcher is told first, and says at which revision; false if it cannot,
// which a watch of one's own says in the library's words.
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

// initialEventsEnd is the bookmark that ends the state of things.
func (s *Storage) initialEventsEnd(at uint64) (watch.Event, error) {
	o := s.newObject()
	if err := s.versioner.UpdateObject(o, at); err != nil {
		return watch.Event{}, err
	}
	return watch.Event{Type: watch.Bookmark, Object: o}, storage.AnnotateInitialEventsEndBookmark(o)
}

// join makes a member of a group that knows all events after a revision, which it may begin; nil if
// there is none. Who owned the member's channel does not any more then.
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

// newGroup makes a group that knows all after a revision; nil if the cache does not reach back so
// far. A member that was refused does not ask again at once.
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
