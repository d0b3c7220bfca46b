package sharedwatch

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// fakeCache is a watch cache, and a storage, that knows all from a revision on.
type fakeCache struct {
	storage.Interface
	lowRevision uint64
	events      []watch.Event
	openWatches []*fakeWatch
	opened      []string // the revisions that watches were opened with
	closed      []time.Time
}

type fakeWatch struct {
	cache  *fakeCache
	events chan watch.Event
}

func (t *fakeWatch) ResultChan() <-chan watch.Event { return t.events }
func (t *fakeWatch) Stop() {
	if n := slices.Index(t.cache.openWatches, t); n >= 0 {
		t.cache.openWatches = slices.Delete(t.cache.openWatches, n, n+1)
		close(t.events)
	}
}

func (h *fakeCache) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

func (h *fakeCache) Watch(ctx context.Context, _ string, o storage.ListOptions) (watch.Interface, error) {
	h.opened = append(h.opened, o.ResourceVersion)
	end, _ := ctx.Deadline()
	h.closed = append(h.closed, end)
	t := &fakeWatch{h, make(chan watch.Event, 10_000)}
	from, _ := strconv.ParseUint(o.ResourceVersion, 10, 64)
	h.openWatches = append(h.openWatches, t)
	if o.SendInitialEvents == nil && from < h.lowRevision {
		t.events <- watch.Event{Type: watch.Error, Object: &metav1.Status{Code: http.StatusGone}}
		t.Stop()
		return t, nil
	}
	for _, e := range h.events {
		if number(e) > from {
			t.events <- e
		}
	}
	context.AfterFunc(ctx, func() { t.Stop() }) // the bubble runs one goroutine after the other where it matters
	return t, nil
}

func (h *fakeCache) send(all ...watch.Event) {
	h.events = append(h.events, all...)
	for _, e := range all {
		for _, t := range h.openWatches {
			t.events <- e
		}
	}
}

func (h *fakeCache) closeWatches() {
	for len(h.openWatches) > 0 {
		h.openWatches[0].Stop()
	}
}

func event(typ watch.EventType, n int) watch.Event {
	return watch.Event{Type: typ, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(n)}}}
}

// added are events with the revisions from first to last.
func added(first, last int) (all []watch.Event) {
	for n := first; n <= last; n++ {
		all = append(all, event(watch.Added, n))
	}
	return all
}

func number(e watch.Event) uint64 {
	r, _ := storage.APIObjectVersioner{}.ObjectResourceVersion(e.Object)
	return r
}

func options(from string, bookmarks bool) storage.ListOptions {
	return storage.ListOptions{ResourceVersion: from, Recursive: true,
		Predicate: storage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything(),
			AllowWatchBookmarks: bookmarks}}
}

func startWatch(ctx context.Context, t *testing.T, s *Storage, o storage.ListOptions) watch.Interface {
	t.Helper()
	w, err := s.Watch(ctx, "/pods/", o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// got is what a watcher has got by now: "ADDED 5", and "end" where its channel is closed.
func got(w watch.Interface) (all []string) {
	for {
		synctest.Wait()
		select {
		case e, ok := <-w.ResultChan():
			switch {
			case !ok:
				return append(all, "end")
			case e.Type == watch.Error:
				all = append(all, string(e.Type))
			default:
				all = append(all, fmt.Sprintf("%s %d", e.Type, number(e)))
			}
		default:
			return all
		}
	}
}

// addedEvents is "ADDED first" to "ADDED last" and what follows.
func addedEvents(first, last int, result ...string) (all []string) {
	for _, e := range added(first, last) {
		all = append(all, fmt.Sprintf("ADDED %d", number(e)))
	}
	return append(all, result...)
}

func expect(t *testing.T, what string, w watch.Interface, want []string) {
	t.Helper()
	if all := got(w); !slices.Equal(all, want) {
		t.Fatalf("%s got %v, want %v", what, all, want)
	}
}

func TestMembersShareAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeCache{lowRevision: 1, events: added(1, 20)}
		s := New(h, h)
		var all []watch.Interface
		for n := range 100 {
			all = append(all, startWatch(t.Context(), t, s, options(strconv.Itoa(10+n%5), n%2 == 0)))
		}
		synctest.Wait()
		h.send(added(21, 30)...)
		h.send(event(watch.Bookmark, 40))
		for n, w := range all {
			want := addedEvents(11+n%5, 30)
			if n%2 == 0 {
				want = append(want, "BOOKMARK 40")
			}
			expect(t, "member", w, want)
		}
		if len(h.openWatches) != 1 {
			t.Errorf("%d watches of the cache are open, want 1", len(h.openWatches))
		}
		for _, w := range all {
			w.Stop()
			expect(t, "who stopped", w, []string{"end"})
		}
		if len(h.openWatches) != 0 || len(s.groups) != 0 {
			t.Errorf("%d watches and %d groups without a member, want 0, 0", len(h.openWatches), len(s.groups))
		}
	})
}

// A bookmark and an error are everybody's own, as whoever encodes them writes into them.
func TestOwnCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeCache{lowRevision: 1}
		s := New(h, h)
		a, b := startWatch(t.Context(), t, s, options("1", true)), startWatch(t.Context(), t, s, options("1", true))
		synctest.Wait()
		h.send(event(watch.Bookmark, 2), watch.Event{Type: watch.Error, Object: &metav1.Status{Code: 500}})
		for range 2 {
			if x, y := <-a.ResultChan(), <-b.ResultChan(); x.Object == y.Object {
				t.Errorf("%s is one object for two", x.Type)
			}
		}
		expect(t, "after an error", a, []string{"end"})
	})
}

// Who does not read keeps its place as long as the window reaches back, loses nothing, and keeps up
// again afterwards; beyond, it gets the rest by a watch of its own.
func TestSlowMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeCache{lowRevision: 1}
		s := New(h, h)
		slow, quick, never := startWatch(t.Context(), t, s, options("1", false)),
			startWatch(t.Context(), t, s, options("1", false)), startWatch(t.Context(), t, s, options("1", false))
		last := 1
		more := func(n int) {
			for end := last + n; last < end; last += 50 {
				h.send(added(last+1, last+50)...)
				expect(t, "who reads", quick, addedEvents(last+1, last+50))
			}
		}
		more(maxWindowEvents)
		expect(t, "who reads at last", slow, addedEvents(2, last))
		h.send(added(last+1, last+1)...)
		expect(t, "who caught up", slow, addedEvents(last+1, last+1))
		expect(t, "who reads", quick, addedEvents(last+1, last+1))
		last++
		more(maxWindowEvents)
		if len(h.opened) != 1 {
			t.Errorf("watches of its own before it read: %v, want 1 of them", h.opened)
		}
		expect(t, "who had not read", never, addedEvents(2, last))
		if len(h.openWatches) != 1 || len(h.opened) != 2 {
			t.Errorf("%d watches are open, opened were %v, want 1, 2 of them", len(h.openWatches), h.opened)
		}
		h.send(added(last+1, last+1)...)
		expect(t, "who had not read", never, addedEvents(last+1, last+1))
	})
}

// Who is stopped while it lags gets no event after one that it did not get.
func TestStoppedInALag(t *testing.T) {
	for range 30 { // whether there is room or an end first is chance
		synctest.Test(t, func(t *testing.T) {
			h := &fakeCache{lowRevision: 1}
			ctx, cancel := context.WithCancel(t.Context())
			w := startWatch(ctx, t, New(h, h), options("1", false))
			synctest.Wait()
			h.send(added(2, 1000)...)
			synctest.Wait()
			cancel()
			want := uint64(2)
			for e := range w.ResultChan() {
				if number(e) != want {
					t.Fatalf("got %d, want %d", number(e), want)
				}
				want++
			}
		})
	}
}

// The end of the group's watch is nobody's end if another one can go on from there.
func TestGroupWatchThatEndsIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeCache{lowRevision: 1}
		s := New(h, h)
		w := startWatch(t.Context(), t, s, options("1", false))
		synctest.Wait()
		h.send(added(2, 3)...)
		expect(t, "member", w, addedEvents(2, 3))
		open := h.openWatches
		h.openWatches = nil // receives no events
		h.send(added(4, 5)...)
		h.openWatches = open
		h.closeWatches()
		h.send(added(6, 6)...)
		expect(t, "after a cut", w, addedEvents(4, 6))
		h.lowRevision = 10
		h.closeWatches()
		expect(t, "where the cache has forgotten", w, []string{"ERROR", "end"})
		if len(s.groups) != 0 {
			t.Errorf("a group is left: got %d, want 0", len(s.groups))
		}
	})
}

// A watch that ends again and again without bringing anything is not opened for ever.
func TestDeadCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeCache{lowRevision: 1}
		s := New(h, h)
		w := startWatch(t.Context(), t, s, options("1", false))
		for range 2*maxReopens + 1 { // by the group, then by itself
			expect(t, "member", w, nil)
			h.closeWatches()
		}
		expect(t, "member", w, []string{"end"})
		if len(h.openWatches) != 0 {
			t.Errorf("%d watches are open, want 0", len(h.openWatches))
		}
	})
}

// Who begins before what the group knows has a watch of its own until it is where the group is.
func TestWatcherFromAnOlderRevisionCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeCache{lowRevision: 1, events: added(1, 30)}
		s := New(h, h)
		first := startWatch(t.Context(), t, s, options("20", false))
		expect(t, "the first", first, addedEvents(21, 30))
		late := startWatch(t.Context(), t, s, options("10", false))
		expect(t, "the late", late, addedEvents(11, 30))
		if len(h.openWatches) != 1 {
			t.Errorf("%d watches are open, want 1", len(h.openWatches))
		}
		h.send(added(31, 31)...)
		expect(t, "the first", first, addedEvents(31, 31))
		expect(t, "the late", late, addedEvents(31, 31))
	})
}

// Who begins where the cache does not reach has a watch of its own, too; the next event that the
// cache knows lets it begin a group.
func TestRevisionBeforeTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, cache := &fakeCache{lowRevision: 1, events: added(1, 30)}, &fakeCache{lowRevision: 25}
		s := New(h, cache)
		w := startWatch(t.Context(), t, s, options("10", false))
		expect(t, "member", w, addedEvents(11, 30))
		time.Sleep(2 * minWatchDuration)
		both := func(n int) { h.send(added(n, n)...); cache.send(added(n, n)...); synctest.Wait() }
		both(31)
		both(32)
		expect(t, "member", w, addedEvents(31, 32))
		if len(h.openWatches) != 0 || len(cache.openWatches) != 1 {
			t.Errorf("%d watches of its own, %d of the cache, want 0, 1", len(h.openWatches), len(cache.openWatches))
		}
	})
}

// Who begins with the state of things joins at the bookmark that ends it, not at the revision of an
// object.
func TestInitialListJoinsAtItsBookmark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, cache := &fakeCache{lowRevision: 1, events: []watch.Event{event(watch.Added, 7), event(watch.Added, 3)}},
			&fakeCache{lowRevision: 1, events: added(4, 9)}
		s := New(h, cache)
		o := options("", true)
		o.SendInitialEvents = new(true)
		w := startWatch(t.Context(), t, s, o)
		expect(t, "member", w, []string{"ADDED 7", "ADDED 3"})
		if len(cache.opened) != 0 {
			t.Fatalf("joined before the end of the state: got %d, want 0", len(cache.opened))
		}
		mark := event(watch.Bookmark, 8)
		if err := storage.AnnotateInitialEventsEndBookmark(mark.Object); err != nil {
			t.Fatal(err)
		}
		h.send(mark)
		expect(t, "member", w, []string{"BOOKMARK 8", "ADDED 9"})
		if len(h.openWatches) != 0 || len(cache.openWatches) != 1 {
			t.Errorf("%d watches of its own, %d of the cache, want 0, 1", len(h.openWatches), len(cache.openWatches))
		}
	})
}

// However often the cache cuts a watcher off that receives the initial state, or its group, it
// gets all, with the bookmark that ends the state if it asked for that.
func TestCutOffWatchersMissNothing(t *testing.T) {
	for _, from := range []string{"", "0", "first"} {
		synctest.Test(t, func(t *testing.T) {
			h := &fakeCache{lowRevision: 1, events: added(1, 30)}
			l := &fakeLister{fakeCache: h, at: 20}
			s := New(l, h).WithInitialEvents(func() runtime.Object { return &corev1.Pod{} },
				func() runtime.Object { return &corev1.PodList{} })
			o, want := options(from, false), []string{"ADDED 7", "ADDED 3"}
			if from == "first" {
				o = options("", true)
				o.SendInitialEvents, want = new(true), append(want, "BOOKMARK 20")
			}
			w := startWatch(t.Context(), t, s, o)
			for n := 21; n <= 30; n++ {
				want = append(want, fmt.Sprint("ADDED ", n))
			}
			expect(t, "member", w, want)
			for n := 31; n < 50; n++ {
				h.closeWatches()
				synctest.Wait()
				h.send(added(n, n)...)
				expect(t, "after a cut", w, []string{fmt.Sprint("ADDED ", n)})
			}
		})
	}
}

// fakeLister is a storage with a state at a revision.
type fakeLister struct {
	*fakeCache
	at int
}

func (l *fakeLister) GetList(_ context.Context, _ string, _ storage.ListOptions, into runtime.Object) error {
	list := into.(*corev1.PodList)
	list.ResourceVersion = strconv.Itoa(l.at)
	for _, n := range []int{7, 3} {
		list.Items = append(list.Items, *event(watch.Added, n).Object.(*corev1.Pod))
	}
	return nil
}

// The last word before a deadline is the library's: a watch of one's own from where the group is,
// with that deadline.
func TestOwnWatchNearTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeCache{lowRevision: 1}
		s := New(h, h)
		other := startWatch(t.Context(), t, s, options("1", true))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		end, _ := ctx.Deadline()
		w, lagging := startWatch(ctx, t, s, options("1", true)), startWatch(ctx, t, s, options("1", true))
		synctest.Wait()
		h.send(added(2, 5)...)
		h.send(event(watch.Bookmark, 9))
		h.send(added(10, 200)...)
		var want []string
		want = append(append(addedEvents(2, 5), "BOOKMARK 9"), addedEvents(10, 200)...)
		expect(t, "member", w, want)
		time.Sleep(time.Minute - deadlineMargin + time.Millisecond)
		h.send(added(201, 201)...)
		expect(t, "who left", w, addedEvents(201, 201))
		want = append(want, "ADDED 201")
		expect(t, "who lagged and left", lagging, want)
		expect(t, "who stays", other, want)
		if !slices.Equal(h.opened, []string{"1", "200", "201"}) || !h.closed[1].Equal(end) {
			t.Errorf("opened %v with the deadlines %v", h.opened, h.closed)
		}
		time.Sleep(deadlineMargin)
		expect(t, "after the deadline", w, []string{"end"})
	})
}

func TestScopesThatShareAWatch(t *testing.T) {
	s := New(&fakeCache{}, &fakeCache{})
	short, cancel := context.WithTimeout(t.Context(), deadlineMargin)
	defer cancel()
	list := options("5", true)
	list.SendInitialEvents = new(true)
	changed := func(o storage.ListOptions, change func(*storage.ListOptions)) storage.ListOptions {
		change(&o)
		return o
	}
	for name, c := range map[string]struct {
		ctx  context.Context
		o    storage.ListOptions
		want shareMode
	}{
		"from a revision":      {t.Context(), options("5", false), shareNow},
		"from anywhere":        {t.Context(), options("", false), shareAfterState},
		"from any state":       {t.Context(), options("0", false), shareAfterState},
		"from nonsense":        {t.Context(), options("x", false), shareNever},
		"with the state first": {t.Context(), list, shareAfterList},
		"of the state, unmarked": {t.Context(),
			changed(list, func(o *storage.ListOptions) { o.Predicate.AllowWatchBookmarks = false }), shareAfterState},
		"without the state": {t.Context(),
			changed(list, func(o *storage.ListOptions) { o.SendInitialEvents = new(false) }), shareNever},
		"of one object": {t.Context(), changed(list, func(o *storage.ListOptions) { o.Recursive = false }), shareNever},
		"for a moment":  {short, options("5", false), shareNever},
	} {
		if mode, _ := s.shareMode(c.ctx, &c.o); mode != c.want {
			t.Errorf("%s: %d, want %d", name, mode, c.want)
		}
	}
}

// Selectors that choose nothing are written as those that choose everything.
func TestScopes(t *testing.T) {
	seen := map[groupKey]string{}
	for name, p := range map[string]storage.SelectionPredicate{
		"all":       {Label: labels.Everything(), Field: fields.Everything()},
		"no label":  {Label: labels.Nothing(), Field: fields.Everything()},
		"one label": {Label: labels.SelectorFromSet(labels.Set{"a": "b"}), Field: fields.Everything()},
		"one field": {Label: labels.Everything(), Field: fields.OneTermEqualSelector("a", "b")},
	} {
		s := groupKeyFor(t.Context(), "/pods/", &p)
		if previous, ok := seen[s]; ok {
			t.Errorf("%s and %s are one scope", name, previous)
		}
		seen[s] = name
	}
}
