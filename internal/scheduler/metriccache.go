package scheduler

import (
	"slices"
	"sync"

	"k8s.io/component-base/metrics"
)

// cachedVec is a metric with labels that remembers what it was asked for: looking one up by its
// labels takes several times as long as counting with it, and every Pod counts some forty times.
type cachedVec[M any] struct {
	metrics.Registerable
	lookup  func(values ...string) M
	mu      sync.RWMutex
	metrics map[[3]string]M
}

type (
	counterVec   = cachedVec[metrics.CounterMetric]
	gaugeVec     = cachedVec[metrics.GaugeMetric]
	histogramVec = cachedVec[metrics.ObserverMetric]
)

func newCachedVec[M any](of metrics.Registerable, look func(values ...string) M) *cachedVec[M] {
	return &cachedVec[M]{Registerable: of, lookup: look, metrics: map[[3]string]M{}}
}

// WithLabelValues is the metric with these values of its labels, of which there are at most three.
// It is to be called once the metric is registered: before, it counts nowhere.
func (l *cachedVec[M]) WithLabelValues(values ...string) M {
	var key [3]string
	copy(key[:], values)
	l.mu.RLock()
	m, known := l.metrics[key]
	l.mu.RUnlock()
	if known {
		return m
	}
	m = l.lookup(slices.Clone(values)...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.metrics[key] = m
	return m
}
