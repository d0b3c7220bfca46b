package fanout

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
	groups            map[scope]*group
}

// Cache is where groups watch. It says at once that it does not know a revision.
type Cache interface {
	Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error)
}

// Over shares watches of a cache. A watcher that cannot share, or not yet, watches the storage itself.
func Over(own storage.Interface, cache Cache) *Storage {
	return &Storage{Interface: own, cache: cache, versioner: own.Versioner(), groups: map[scope]*group{}}
}

// TellingStates has watchers that begin with the state of things told it from a list. A watch of
// their own would be cut off where writes come faster than the state is read.
func (s *Storage) TellingStates(newObject, newList func() runtime.Object) *Storage {
	s.newObject, s.newList = newObject, newList
	return s
}

// scope is what watchers must have in common to get the same events.
type scope struct {
	key, namespace string
	labels, fields string
	none           bool // a selector chooses nothing, which is written as the one that chooses everything
}

func scopeOf(ctx context.Context, key string, p *storage.SelectionPredicate) scope {
	ns, _ := request.NamespaceFrom(ctx)
	s := scope{key: key, namespace: ns, labels: p.Label.String(), fields: p.Field.String()}
	s.none = s.labels == "" && !p.Label.Empty() || s.fields == "" && !p.Field.Empty()
	return s
}

// sharing is whether and how a watcher may share.
type sharing int

const (
	never      sharing = iota
	now                // from the revision it names
	afterList          // when it has got the state of things, which a bookmark ends
	afterState         // when it has got the state of things, which nothing ends for it
)

// shares says how a watcher of many objects shares, and from which revision. Who watches one object, wants a part of the objects by their hash or has
// little time does not.
func (s *Storage) shares(ctx context.Context, o *storage.ListOptions) (sharing, uint64) {
	p := &o.Predicate
	if !o.Recursive || p.Label == nil || p.Field == nil || p.ShardSelector != nil && !p.ShardSelector.Empty() {
		return never, 0
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < 2*lastWord {
		return never, 0
	}
	if o.SendInitialEvents != nil {
		switch {
		case *o.SendInitialEvents && p.AllowWatchBookmarks: // a bookmark says when the state was told
			return afterList, 0
		case *o.SendInitialEvents:
			return afterState, 0
		}
		return never, 0
	}
	switch from, err := s.versioner.ParseResourceVersion(o.ResourceVersion); {
	case err != nil:
		return never, 0
	case from == 0: // the state of things, as the cache has it
		return afterState, 0
	default:
		return now, from
	}
}

// Watch implements storage.Interface.
func (s *Storage) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	how, from := s.shares(ctx, &o)
	var state []runtime.Object
	known := false
	if how == afterList || how == afterState {
		if state, from, known = s.state(ctx, key, o); !known && how == afterState {
			how = never
		}
	}
	if how == never {
		return s.Interface.Watch(ctx, key, o)
	}
	m := newMember(ctx, s, key, o)
	switch {
	case known:
		utilflowcontrol.WatchInitialized(ctx)
		go m.tell(state, from)
		return m, nil
	case how == now:
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
	go m.alone(w, from)
	return m, nil
}

// state lists what a watcher is told first, and says at which revision; false if it cannot, which a
// watch of one's own says in the library's words.
func (s *Storage) state(ctx context.Context, key string, o storage.ListOptions) ([]runtime.Object, uint64, bool) {
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

// endOfState is the bookmark that ends the state of things.
func (s *Storage) endOfState(at uint64) (watch.Event, error) {
	o := s.newObject()
	if err := s.versioner.UpdateObject(o, at); err != nil {
		return watch.Event{}, err
	}
	return watch.Event{Type: watch.Bookmark, Object: o}, storage.AnnotateInitialEventsEndBookmark(o)
}

// join makes a member of a group that knows all events after a revision, which it may begin; nil if there is none. Who owned the member's channel does not any more then.
func (s *Storage) join(m *member, from uint64) *group {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[m.scope]
	if g == nil {
		if g = s.begin(m, from); g == nil {
			return nil
		}
		s.groups[m.scope] = g
		go g.run()
	}
	if !g.admit(m, from) {
		g.shrinkLocked()
		return nil
	}
	return g
}

// begin makes a group that knows all after a revision; nil if the cache does not reach back so far. A member that was refused does not ask again at once.
func (s *Storage) begin(m *member, from uint64) *group {
	if time.Since(m.refused) < patience {
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	if m.scope.namespace != "" {
		ctx = request.WithNamespace(ctx, m.scope.namespace)
	}
	o := m.options
	o.SendInitialEvents, o.ResourceVersionMatch = nil, ""
	o.Predicate.AllowWatchBookmarks = true
	g := &group{of: s, scope: m.scope, options: o, ctx: ctx, stop: stop, members: map[*member]struct{}{}, window: window{low: from, high: from}}
	if g.watch, g.ahead = g.open(); g.watch == nil {
		stop()
		m.refused = time.Now()
		return nil
	}
	return g
}

func revision(n uint64) string { return strconv.FormatUint(n, 10) }
