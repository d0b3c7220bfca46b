package store

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// A watch cache drops old events, though no new ones come; who resumes from before
// them loses nothing. It never keeps more than it is to.
//
// row: API-10
func TestOldEventsAreDropped(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "etcd"))
	kinds := kindStorage(t, s, "kinds")
	c := s.shared.caches[0]
	if c.history == nil {
		t.Fatal("the library's watch cache has other fields than it had: see historyOf")
	}
	const writes = 700
	for n := range writes {
		putConfigMap(t, kinds, "kinds", fmt.Sprint("c", n))
	}
	list := &corev1.ConfigMapList{}
	all := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
	if err := kinds.GetList(t.Context(), "/kinds/", all, list); err != nil || len(list.Items) != writes {
		t.Fatalf("%d objects, %v", len(list.Items), err)
	}
	backup := func() (n, capacity int64) {
		c.history.lock.RLock()
		defer c.history.lock.RUnlock()
		return c.history.end.Int() - c.history.first.Int(), c.history.capacity.Int()
	}
	now := time.Now()
	s.TrimHistories(now.Add(trimPeriod))
	if n, _ := backup(); n != writes {
		t.Errorf("%d of %d young events are kept", n, writes)
	}
	s.TrimHistories(now.Add(2 * historyAge))
	if n, capacity := backup(); n != minHistory || capacity >= 2*minHistory || c.history.events.Len() != int(capacity) {
		t.Errorf("%d old events in room for %d are kept", n, capacity)
	}
	for _, from := range []int{1, writes / 2, writes - 10} {
		o := all
		o.ResourceVersion = list.Items[0].ResourceVersion
		first := uint64(0)
		if _, err := fmt.Sscan(o.ResourceVersion, &first); err != nil {
			t.Fatal(err)
		}
		o.ResourceVersion = fmt.Sprint(first + uint64(from))
		w, err := kinds.Watch(t.Context(), "/kinds/", o)
		if err != nil {
			t.Fatal(err)
		}
		for n := from + 1; n < writes; n++ {
			e := <-w.ResultChan()
			if shared, ok := e.Object.(runtime.CacheableObject); ok {
				e.Object = shared.GetObject()
			}
			if c, ok := e.Object.(*corev1.ConfigMap); e.Type != watch.Added || !ok || c.Name != fmt.Sprint("c", n) {
				t.Fatalf("from %d: event %d is %s %v, want c%d ADDED", from, n, e.Type, e.Object, n)
			}
		}
		w.Stop()
	}
	if events := kindStorage0(t, s, "events"); len(s.shared.caches) != 1 || events == nil {
		t.Errorf("%d caches: events have one", len(s.shared.caches))
	}
	putConfigMap(t, kinds, "kinds", "more")
	if n, _ := backup(); n > minHistory+1 {
		t.Errorf("%d events are kept", n)
	}
}

// A watch whose first event was read to see whether it is an error brings that event once, then
// what follows, and ends with what it stands for.
//
// row: API-10
func TestPeekedWatchBringsEachEventOnce(t *testing.T) {
	event := func(name string) watch.Event {
		return watch.Event{Type: watch.Added, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	}
	source := watch.NewFakeWithChanSize(2, false)
	w := newPeekedWatch(event("first"), source)
	source.Action(watch.Added, event("second").Object)
	source.Action(watch.Added, event("third").Object)
	source.Stop()
	var got []string
	for e := range w.ResultChan() {
		got = append(got, e.Object.(*corev1.ConfigMap).Name)
	}
	if want := []string{"first", "second", "third"}; !slices.Equal(got, want) {
		t.Errorf("got the events %v, want %v", got, want)
	}
	stopped := newPeekedWatch(event("first"), watch.NewFake())
	stopped.Stop()
	for range stopped.ResultChan() { // ends, whether or not the first event was taken
	}
}
