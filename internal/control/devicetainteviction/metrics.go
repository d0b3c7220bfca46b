package devicetainteviction

import (
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const subsystem = "device_taint_eviction_controller"

var (
	deletions = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "pod_deletions_total", StabilityLevel: metrics.ALPHA,
		Help: "Total number of Pods deleted by DeviceTaintEvictionController since its start.",
	})
	latency = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: "pod_deletion_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help: "Latency, in seconds, between the time when a device taint effect has been activated and a Pod's " +
			"deletion via DeviceTaintEvictionController.",
		Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240},
	})
)

func init() { legacyregistry.MustRegister(deletions, latency) }

// count counts an evicted Pod and how late that was.
func count(late time.Duration) {
	deletions.Inc()
	latency.Observe(late.Seconds())
}
