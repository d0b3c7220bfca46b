package store

import (
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// These complement the library's apiserver_watch_cache_resource_version.
var (
	etcdRevision = metrics.NewGauge(&metrics.GaugeOpts{
		Name: "gantry_etcd_revision", StabilityLevel: metrics.ALPHA,
		Help: "Revision of the embedded etcd, to be compared with apiserver_watch_cache_resource_version. Truncated " +
			"to the 15 least significant digits, as that is.",
	})
	watchCacheLag = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "gantry_watch_cache_behind_seconds", StabilityLevel: metrics.ALPHA,
		Help: "For how long etcd has had a revision that the watch cache of a resource has not reached; 0 for one " +
			"that follows.",
	}, []string{"group", "resource"})
	watchCacheReopens = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "gantry_watch_cache_watches_reopened_total", StabilityLevel: metrics.ALPHA,
		Help: "Watches of watch caches that were opened anew because nothing came over them, though etcd had moved on.",
	}, []string{"group", "resource"})
)

func init() {
	legacyregistry.MustRegister(etcdRevision, watchCacheLag, watchCacheReopens)
}

// metricRevision truncates a revision as the library's metrics do.
func metricRevision(r uint64) float64 { return float64(r % 1e15) }

// recordLag sets the lag of a cache, in seconds.
func (c *trackedCache) recordLag(now time.Time) {
	behind := 0.0
	if c.state.target != 0 {
		behind = now.Sub(c.state.since).Seconds()
	}
	watchCacheLag.WithLabelValues(c.resource.Group, c.resource.Resource).Set(behind)
}
