package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// plegMetrics counts what pleg does, and knows when it last did.
type plegMetrics struct {
	took, interval          *prometheus.HistogramVec
	lastSeen                *prometheus.GaugeVec
	connects, connectErrors *prometheus.CounterVec

	created    time.Time
	mu         sync.Mutex
	lastRelist time.Time
}

func newPLEG(k factory) *plegMetrics {
	return &plegMetrics{
		created: time.Now(),
		took: k.histogram("kubelet_pleg_relist_duration_seconds",
			"[ALPHA] Duration in seconds for relisting pods in PLEG.", prometheus.DefBuckets),
		interval: k.histogram("kubelet_pleg_relist_interval_seconds",
			"[ALPHA] Interval in seconds between relisting in PLEG.", prometheus.DefBuckets),
		lastSeen: k.gauge("kubelet_pleg_last_seen_seconds",
			"[ALPHA] Timestamp in seconds when PLEG was last seen active."),
		connects: k.counter("kubelet_evented_pleg_connection_success_count",
			"[ALPHA] The number of times a streaming client was obtained to receive CRI Events."),
		connectErrors: k.counter("kubelet_evented_pleg_connection_error_count",
			"[ALPHA] The number of errors encountered during the establishment of streaming connection with the CRI "+
				"runtime."),
	}
}

func (p *plegMetrics) relisted(now time.Time, took time.Duration) {
	p.took.WithLabelValues().Observe(took.Seconds())
	p.lastSeen.WithLabelValues().Set(float64(now.Unix()))
	p.mu.Lock()
	last := p.lastRelist
	p.lastRelist = now
	p.mu.Unlock()
	if !last.IsZero() {
		p.interval.WithLabelValues().Observe(now.Sub(last).Seconds())
	}
}

// sinceRelist is for how long no listing was answered, counted from the start.
func (p *plegMetrics) sinceRelist(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lastRelist.IsZero() {
		return now.Sub(p.created)
	}
	return now.Sub(p.lastRelist)
}

func (p *plegMetrics) connected(err error) {
	if err != nil {
		p.connectErrors.WithLabelValues().Inc()
		return
	}
	p.connects.WithLabelValues().Inc()
}
