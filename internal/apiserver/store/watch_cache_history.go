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
	// historyAge is for how long a watch cache keeps an event at least; the library's own bound.
	historyAge = cacher.DefaultEventFreshDuration
	// minHistory is how many events a watch cache keeps, however old.
	minHistory = 100
	// maxHistory is how many it keeps, however young. Who resumes from before them is served by
	// etcd.
	maxHistory = minHistory << 7
	// trimPeriod is how often what is too old is let go.
	trimPeriod = 15 * time.Second
)

// watchCacheHistory is the window of events that a watch cache keeps for those who resume. The
// library grows it while events come quickly and shrinks it only when they come slowly: when they
// end, it keeps two objects for each of up to a hundred thousand events for good. Nothing of the
// window is public, so that it is reached through the library's own fields: after an update of
// k8s.io/apiserver TestHistoryIsLetGo tells whether they are as here.
type watchCacheHistory struct {
	lock   *sync.RWMutex // of the watch cache
	events reflect.Value // the ring, a slice of pointers to events
	// numbers of the first event and of the next one; a place is its number modulo the capacity
	first, end reflect.Value
	capacity   reflect.Value
	removed    reflect.Value // something was let go since the list
	snapshots  *cacherstore.WatchCacheStorage
}

// historyOf finds the window of a watch cache and bounds it; the error says what the library has
// otherwise than it had.
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

// structField is a field of an addressable struct, to be read and set whatever its name.
func structField(of reflect.Value, name string) reflect.Value {
	f := of.FieldByName(name)
	if !f.IsValid() {
		panic("there is no field " + name)
	}
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}

// event is one of the window: when it was recorded, and its revision.
func (h *watchCacheHistory) event(n int64) (time.Time, uint64) {
	e := h.events.Index(int(n % h.capacity.Int())).Elem()
	return e.FieldByName("RecordTime").Interface().(time.Time), e.FieldByName("ResourceVersion").Uint()
}

// TrimHistories has the watch caches of an embedded etcd let go of the events that are too old at a
// time, as they do by themselves every quarter of a minute.
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

// trim lets go of events that are too old, with the room that they took and the states of the cache
// that only they could ask for. Who is being served from them is cut off, and resumes.
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
