package store

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"
	"unsafe"

	"k8s.io/apiserver/pkg/storage/cacher"
	cacherstore "k8s.io/apiserver/pkg/storage/cacher/store"
)

const (
	// historyAge is how long a watch cache keeps an event at least: the library's default.
	historyAge = cacher.DefaultEventFreshDuration
	// minHistory is how many events a watch cache keeps, whatever their age.
	minHistory = 100
	// maxHistory is how many it keeps at most. Watches that resume from before them are served by
	// etcd (resumingStorage).
	maxHistory = minHistory << 7
	// trimPeriod is how often old events are dropped.
	trimPeriod = 15 * time.Second
)

// watchCacheHistory bounds the event history of one of the library's watch caches. The library
// grows the history while events come quickly and shrinks it only while they come slowly: when
// events stop, it keeps two objects for each of up to 100,000 events for good. The history is not
// exported, so it is reached by reflection; after an update of k8s.io/apiserver,
// TestOldEventsAreDropped shows whether the fields are still as here.
type watchCacheHistory struct {
	lock   *sync.RWMutex // the watch cache's own
	events reflect.Value // ring buffer: a slice of pointers to events
	// numbers of the first event and of the next one; the index is the number modulo capacity
	first, end reflect.Value
	capacity   reflect.Value
	removed    reflect.Value // an event was dropped since the last list
	snapshots  *cacherstore.WatchCacheStorage
}

// historyOf returns the history of a watch cache and sets its upper bound; the error names the
// field that the library does not have any more.
func historyOf(c *cacher.Cacher) (h *watchCacheHistory, err error) {
	defer func() {
		if r := recover(); r != nil {
			h, err = nil, fmt.Errorf("the history of a watch cache: %v", r)
		}
	}()
	cache := structField(reflect.ValueOf(c).Elem(), "watchCache").Elem()
	history := structField(cache, "history").Elem()
	h = &watchCacheHistory{
		lock:   structField(cache, "RWMutex").Addr().Interface().(*sync.RWMutex),
		events: structField(history, "cache"), first: structField(history, "startIndex"),
		end:      structField(history, "endIndex"),
		capacity: structField(history, "capacity"), removed: structField(history, "removedEventSinceRelist"),
		snapshots: structField(cache, "storage").Interface().(*cacherstore.WatchCacheStorage),
	}
	_, _, _, _ = h.first.Int(), h.end.Int(), h.capacity.Int(), h.removed.Bool()
	_ = h.events.Type().Elem().Elem() // a pointer's
	h.lock.Lock()
	defer h.lock.Unlock()
	structField(history, "upperBoundCapacity").SetInt(maxHistory)
	return h, nil
}

// structField returns a field of an addressable struct for reading and setting, exported or not. It
// panics if there is none.
func structField(of reflect.Value, name string) reflect.Value {
	f := of.FieldByName(name)
	if !f.IsValid() {
		panic("there is no field " + name)
	}
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}

// event returns the time and revision of the event with a number. h.lock is held.
func (h *watchCacheHistory) event(n int64) (time.Time, uint64) {
	e := h.events.Index(int(n % h.capacity.Int())).Elem()
	return e.FieldByName("RecordTime").Interface().(time.Time), e.FieldByName("ResourceVersion").Uint()
}

// TrimHistories drops the events that are too old at the time now from all watch caches of an
// embedded etcd. monitorCaches calls it every trimPeriod.
func (s *Store) TrimHistories(now time.Time) {
	if s.embedded == nil {
		return
	}
	s.shared.mu.Lock()
	all := slices.Clone(s.shared.caches)
	s.shared.mu.Unlock()
	for _, c := range all {
		if c.history != nil {
			c.history.trim(now)
		}
	}
}

// trim drops events older than historyAge, shrinks the ring buffer and drops the snapshots of the
// cache that only they could need. Watchers that are being served from dropped events are
// terminated and resume.
func (h *watchCacheHistory) trim(now time.Time) {
	h.lock.Lock()
	defer h.lock.Unlock()
	first, end := h.first.Int(), h.end.Int()
	for ; first < end-minHistory; first++ {
		if at, _ := h.event(first); now.Sub(at) < historyAge {
			break
		}
	}
	if first == h.first.Int() {
		return
	}
	_, oldest := h.event(first)
	capacity := h.capacity.Int()
	for capacity > minHistory && capacity/2 >= end-first {
		capacity /= 2
	}
	ring := reflect.MakeSlice(h.events.Type(), int(capacity), int(capacity))
	for n := first; n < end; n++ {
		ring.Index(int(n % capacity)).Set(h.events.Index(int(n % h.capacity.Int())))
	}
	h.events.Set(ring)
	h.first.SetInt(first)
	h.capacity.SetInt(capacity)
	h.removed.SetBool(true)
	h.snapshots.CompactSnapshotsLocked(oldest)
}
