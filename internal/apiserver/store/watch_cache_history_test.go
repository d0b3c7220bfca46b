package store

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// A watch cache drops old events, though no new ones come; who resumes from before
// them loses nothing. It never keeps more than it is to.
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
			if e := <-w.ResultChan(); e.Type != watch.Added {
				t.Fatalf("from %d: event %d is %s %v", from, n, e.Type, e.Object)
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
