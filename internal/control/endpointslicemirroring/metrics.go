package endpointslicemirroring

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const subsystem = "endpoint_slice_mirroring_controller"

var (
	added   = perSync("endpoints_added_per_sync", "Number of endpoints added on each Endpoints sync")
	updated = perSync("endpoints_updated_per_sync", "Number of endpoints updated on each Endpoints sync")
	removed = perSync("endpoints_removed_per_sync", "Number of endpoints removed on each Endpoints sync")
	skipped = perSync("addresses_skipped_per_sync", "Number of addresses skipped on each Endpoints sync due to "+
		"being invalid or exceeding MaxEndpointsPerSubset")
	syncSeconds = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: "endpoints_sync_duration", StabilityLevel: metrics.ALPHA,
		Help: "Duration of syncEndpoints() in seconds", Buckets: metrics.ExponentialBuckets(0.001, 2, 15),
	}, []string{})
	endpointsDesired = total("endpoints_desired", "Number of endpoints desired")
	numSlices        = total("num_endpoint_slices", "Number of EndpointSlices")
	desiredSlices    = total("desired_endpoint_slices",
		"Number of EndpointSlices that would exist with perfect endpoint allocation")
	changes = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "changes", StabilityLevel: metrics.ALPHA, Help: "Number of EndpointSlice changes",
	}, []string{"operation"})
)

func init() {
	legacyregistry.MustRegister(added, updated, removed, skipped, syncSeconds, endpointsDesired, numSlices,
		desiredSlices, changes)
}

// perSync is a family of counts of one sync.
func perSync(name, help string) *metrics.HistogramVec {
	return metrics.NewHistogramVec(&metrics.HistogramOpts{Subsystem: subsystem, Name: name, Help: help,
		StabilityLevel: metrics.ALPHA, Buckets: metrics.ExponentialBuckets(2, 2, 15)}, []string{})
}

// total is a family of what there is in the cluster.
func total(name, help string) *metrics.GaugeVec {
	return metrics.NewGaugeVec(&metrics.GaugeOpts{Subsystem: subsystem, Name: name, Help: help,
		StabilityLevel: metrics.ALPHA}, []string{})
}

// observe counts what a sync of Endpoints that are mirrored found.
func (c Counts) observe() {
	for family, n := range map[*metrics.HistogramVec]int{added: c.Added, updated: c.Updated, removed: c.Removed,
		skipped: c.Skipped} {
		family.WithLabelValues().Observe(float64(n))
	}
}

// mirrored is what all Endpoints are mirrored in. It is safe for concurrent use.
type mirrored struct {
	mu  sync.Mutex
	by  map[string]Counts // by namespace/name
	sum Counts
}

// note replaces what Endpoints are mirrored in, and shows the sums. Slices are never split further
// than ports and IP families ask for, so as many are desired as there are.
func (m *mirrored) note(key string, mirrors bool, now Counts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.by[key]
	delete(m.by, key)
	if mirrors {
		m.by[key] = now
	} else {
		now = Counts{}
	}
	m.sum.Endpoints += now.Endpoints - was.Endpoints
	m.sum.Slices += now.Slices - was.Slices
	endpointsDesired.WithLabelValues().Set(float64(m.sum.Endpoints))
	numSlices.WithLabelValues().Set(float64(m.sum.Slices))
	desiredSlices.WithLabelValues().Set(float64(m.sum.Slices))
}
