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
	// progressPeriod is how often watch caches are compared with etcd. A cache that is behind gets
	// a progress notification, so that none is staler than about that.
	progressPeriod = time.Second
	// reopenAfter is how many comparisons in a row a cache may stay at one revision behind etcd,
	// with a progress request each time, before its watch is reopened.
	reopenAfter = 10
	// stalledAfter is after how many of them the server reports itself unready: a new watch has not
	// helped.
	stalledAfter = 25
)

// cacheState is how a watch cache follows etcd; the zero value for one that has caught up.
type cacheState struct {
	target    uint64    // the revision it has to reach
	since     time.Time // when etcd was first seen at target
	current   uint64    // its revision at the last comparison
	unchanged int       // comparisons in a row without a new revision
}

// cacheAction is what compareCaches does about a cache.
type cacheAction int

const (
	noAction    cacheAction = iota
	askProgress             // request a progress notification on its watch
	reopenWatch             // end its watch and open another
)

// next returns the state of a cache at revision at while etcd is at revision etcd, and what to do.
// Pure. Comparisons are counted, not timed: a process that was suspended has not seen a fault.
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

// stalled reports whether neither progress requests nor a new watch have moved the cache.
func (c cacheState) stalled() bool { return c.unchanged >= stalledAfter }

// StalledCaches is the error of CheckCaches: lists and watches of these resources may wait or miss
// changes.
type StalledCaches struct{ Kinds []StalledCache }

// StalledCache is a resource whose watch cache does not follow etcd.
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

// trackedCache is a watch cache that monitorCaches compares with etcd. sharedClient.mu guards
// state.
type trackedCache struct {
	source   *cacheSource
	resource schema.GroupResource
	cache    interface {
		Ready() bool
		LastSyncResourceVersion() (uint64, error)
	}
	history *watchCacheHistory // nil if historyOf failed
	state   cacheState
}

// monitorCaches calls compareCaches every progressPeriod and TrimHistories every trimPeriod until
// ctx ends.
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

// compareCaches compares all caches with etcd's revision once and requests progress or reopens
// watches. A cache that is still being filled is skipped.
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
			continue // the cache was stopped
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

// requestProgress requests a progress notification; it returns before the next comparison.
func (c *trackedCache) requestProgress(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, progressPeriod)
	defer cancel()
	_ = c.source.RequestWatchProgress(ctx) // the next comparison shows whether it helped
}

// addCache adds a cache to those that are compared; remove takes it out again.
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

// stalledError returns *StalledCaches, or nil if no cache is stalled.
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

// CheckCaches returns *StalledCaches if some watch cache of an embedded etcd has not moved for
// stalledAfter comparisons. A cache that is being filled, or that moves however slowly, passes. The
// readiness check calls it.
func (s *Store) CheckCaches() error {
	if s.embedded == nil || s.closed.Load() {
		return nil
	}
	return s.shared.stalledError(uint64(s.embedded.Server.KV().Rev()), time.Now())
}
