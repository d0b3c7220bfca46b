package tainteviction

import (
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	deletions = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: "taint_eviction_controller", Name: "pod_deletions_total", StabilityLevel: metrics.ALPHA,
		Help: "Total number of Pods deleted by TaintEvictionController since its start.",
	})
	latency = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem: "taint_eviction_controller", Name: "pod_deletion_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help: "Latency, in seconds, between the time when a taint effect has been activated for the Pod and its " +
			"deletion via TaintEvictionController.",
		Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240},
	})
)

func init() { legacyregistry.MustRegister(deletions, latency) }

// count counts an evicted Pod; due is when it was to be evicted.
func count(due time.Time) {
	deletions.Inc()
	if !due.IsZero() {
		latency.Observe(max(time.Since(due), 0).Seconds())
	}
}
