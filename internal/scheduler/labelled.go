package scheduler

import (
	"slices"
	"sync"

	"k8s.io/component-base/metrics"
)

// labelled is a metric with labels that remembers what it was asked for: looking one up by its labels takes several times as long as counting with it, and every Pod counts some forty times.
type labelled[M any] struct {
	metrics.Registerable
	look  func(values ...string) M
	mu    sync.RWMutex
	known map[[3]string]M
}

type (
	counters   = labelled[metrics.CounterMetric]
	gauges     = labelled[metrics.GaugeMetric]
	histograms = labelled[metrics.ObserverMetric]
)

func newLabelled[M any](of metrics.Registerable, look func(values ...string) M) *labelled[M] {
	return &labelled[M]{Registerable: of, look: look, known: map[[3]string]M{}}
}

// WithLabelValues is the metric with these values of its labels, of which there are at most three. It is to be called once the metric is registered: before, it counts nowhere.
func (l *labelled[M]) WithLabelValues(values ...string) M {
	var key [3]string
	copy(key[:], values)
	l.mu.RLock()
	m, known := l.known[key]
	l.mu.RUnlock()
	if known {
		return m
	}
	m = l.look(slices.Clone(values)...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[key] = m
	return m
}
