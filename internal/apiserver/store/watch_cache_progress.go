package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
)

const (
	// progressPeriod is how often watch caches are compared with etcd. A cache that is behind is
	// told how far etcd is, so that all are at most about that old.
	progressPeriod = time.Second
	// reopenAfter is how many comparisons in a row a cache may stand still behind etcd, asked each
	// time, before its watch is opened anew.
	reopenAfter = 10
	// stalledAfter is how many make it one that the server is not ready with: a new watch did not
	// help.
	stalledAfter = 25
)

// cacheState is what is known of a watch cache since it last was where etcd is; the zero value of
// one that is.
type cacheState struct {
	target    uint64    // the revision that it is to reach
	since     time.Time // when etcd was seen to have it
	current   uint64    // where it was last
	unchanged int       // comparisons in a row at which it had not moved
}

// cacheAction is what a comparison has done about a cache.
type cacheAction int

const (
	noAction    cacheAction = iota
	askProgress             // request progress on its watch
	reopenWatch             // end its watch and open another
)

// next says what becomes of a cache that is at a revision while etcd is at another. Comparisons
// are counted, not timed: a process that was stopped for a while knows of no fault.
func (c cacheState) next(at, etcd uint64, now time.Time) (cacheState, cacheAction) {
	switch {
	case at >= etcd:
		return cacheState{}, noAction
	case c.target == 0 || at >= c.target:
		return cacheState{target: etcd, since: now, current: at}, askProgress
	case at > c.current:
		c.current, c.unchanged = at, 0
		return c, askProgress
	}
	if c.unchanged++; c.unchanged%reopenAfter == 0 {
		return c, reopenWatch
	}
	return c, askProgress
}

// stalled says that neither requests for progress nor a new watch have moved the cache.
func (c cacheState) stalled() bool { return c.unchanged >= stalledAfter }

// StalledCaches are kinds whose watch caches do not follow etcd: who lists or watches them may
// wait, or not hear of changes.
type StalledCaches struct{ Kinds []StalledCache }

// StalledCache is a kind whose watch cache stands still.
type StalledCache struct {
	Resource schema.GroupResource
	At, Etcd uint64        // revisions
	For      time.Duration // since etcd passed the cache
}

// Error implements error.
func (s *StalledCaches) Error() string {
	var b strings.Builder
	for n, k := range s.Kinds {
		if n > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "the watch cache of %s has stood at revision %d for %s while etcd is at %d",
			k.Resource, k.At, k.For.Round(time.Second), k.Etcd)
	}
	return b.String() + ": restart the API server if it does not go away"
}

// trackedCache is a watch cache with where it is filled from and what is known of it.
type trackedCache struct {
	source   *cacheSource
	resource schema.GroupResource
	cache    interface {
		Ready() bool
		LastSyncResourceVersion() (uint64, error)
	}
	history *watchCacheHistory // nil where it cannot be reached
	state   cacheState
}

// monitorCaches compares all caches with etcd, and has them let go of what is old, until ctx ends.
func (s *Store) monitorCaches(ctx context.Context) {
	timer := alignedClock{}.NewTimer(progressPeriod)
	defer timer.Stop()
	for trimmed := time.Now(); ; {
		select {
		case <-timer.C():
		case <-ctx.Done():
			return
		}
		now := time.Now()
		s.shared.compareCaches(ctx, uint64(s.embedded.Server.KV().Rev()), now)
		if now.Sub(trimmed) >= trimPeriod {
			trimmed = now
			s.TrimHistories(now)
		}
		timer.Reset(progressPeriod)
	}
}

// compareCaches compares all caches with etcd once. One that is being filled is not judged.
func (s *sharedClient) compareCaches(ctx context.Context, etcd uint64, now time.Time) {
	s.mu.Lock()
	all := slices.Clone(s.caches)
	s.mu.Unlock()
	etcdRevision.Set(metricRevision(etcd))
	for _, c := range all {
		if !c.cache.Ready() {
			continue
		}
		at, err := c.cache.LastSyncResourceVersion()
		if err != nil {
			continue // it is over
		}
		next, step := c.state.next(at, etcd, now)
		s.mu.Lock()
		c.state = next
		s.mu.Unlock()
		c.recordLag(now)
		switch step {
		case askProgress:
			go c.requestProgress(ctx)
		case reopenWatch:
			klog.FromContext(ctx).Error(nil,
				"A watch cache has not heard from etcd, though it asked; its watch is opened anew",
				"resource", c.resource.String(), "cacheRevision", at, "etcdRevision", etcd,
				"behindSeconds", int(now.Sub(next.since).Seconds()))
			watchCacheReopens.WithLabelValues(c.resource.Group, c.resource.Resource).Inc()
			c.source.reopen()
		}
	}
}

// requestProgress requests progress; not for longer than until the next comparison.
func (c *trackedCache) requestProgress(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, progressPeriod)
	defer cancel()
	_ = c.source.RequestWatchProgress(ctx) // whether it came shows at the next comparison
}

// addCache makes a cache one that is followed; the function returned takes it away again.
func (s *sharedClient) addCache(c *trackedCache) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caches = append(s.caches, c)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.caches = slices.DeleteFunc(s.caches, func(o *trackedCache) bool { return o == c })
		watchCacheLag.DeleteLabelValues(c.resource.Group, c.resource.Resource)
	}
}

// stalledError is nil, or *StalledCaches.
func (s *sharedClient) stalledError(etcd uint64, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var e StalledCaches
	for _, c := range s.caches {
		if c.state.stalled() {
			k := StalledCache{Resource: c.resource, At: c.state.current, Etcd: etcd, For: now.Sub(c.state.since)}
			e.Kinds = append(e.Kinds, k)
		}
	}
	if len(e.Kinds) == 0 {
		return nil
	}
	return &e
}

// CheckCaches says whether the watch caches of all kinds follow an embedded etcd: the error is
// *StalledCaches. A cache that is being filled, one that moves however slowly, and one that has
// been behind for less than half a minute do follow.
func (s *Store) CheckCaches() error {
	if s.embedded == nil || s.closed.Load() {
		return nil
	}
	return s.shared.stalledError(uint64(s.embedded.Server.KV().Rev()), time.Now())
}
