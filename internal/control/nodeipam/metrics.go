package nodeipam

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const subsystem = "node_ipam_controller"

// Upstream's families; cirdset is its spelling.
var (
	allocations = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "cidrset_cidrs_allocations_total", StabilityLevel: metrics.ALPHA,
		Help: "Counter measuring total number of CIDR allocations.",
	}, []string{"clusterCIDR"})
	releases = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "cidrset_cidrs_releases_total", StabilityLevel: metrics.ALPHA,
		Help: "Counter measuring total number of CIDR releases.",
	}, []string{"clusterCIDR"})
	maxCIDRs = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: "cirdset_max_cidrs", StabilityLevel: metrics.ALPHA,
		Help: "Maximum number of CIDRs that can be allocated.",
	}, []string{"clusterCIDR"})
	usage = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: "cidrset_usage_cidrs", StabilityLevel: metrics.ALPHA,
		Help: "Gauge measuring percentage of allocated CIDRs.",
	}, []string{"clusterCIDR"})
	tries = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: "cidrset_allocation_tries_per_request", StabilityLevel: metrics.ALPHA,
		Help: "Number of endpoints added on each Service sync", Buckets: metrics.ExponentialBuckets(1, 5, 5),
	}, []string{"clusterCIDR"})
)

func init() { legacyregistry.MustRegister(allocations, releases, maxCIDRs, usage, tries) }

// metricsRecorder shows what an allocator has counted since it was shown before.
type metricsRecorder struct{ shown map[*CIDRRange]Counts }

// recordMetrics adds what is new in the allocator's counts to the families, and sets what they hold
// now.
func (m *metricsRecorder) recordMetrics(a *Allocator) {
	if m.shown == nil {
		m.shown = map[*CIDRRange]Counts{}
	}
	for _, r := range a.Ranges {
		label, was, now := r.Cluster.String(), m.shown[r], r.counts
		allocations.WithLabelValues(label).Add(float64(now.Allocated - was.Allocated))
		releases.WithLabelValues(label).Add(float64(now.Released - was.Released))
		maxCIDRs.WithLabelValues(label).Set(float64(r.size()))
		usage.WithLabelValues(label).Set(float64(len(r.occupied)) / float64(r.size()))
		for _, n := range now.Tries {
			tries.WithLabelValues(label).Observe(float64(n))
		}
		r.counts.Tries, now.Tries = nil, nil
		m.shown[r] = now
	}
}
