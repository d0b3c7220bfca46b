package metrics

import (
	"slices"
	"sync"

	"k8s.io/component-base/metrics"
)

// cachedVec is a metric with at most three labels that remembers the metric of each set of label
// values: looking one up in the vector takes several times as long as counting, and every Pod
// counts some forty times. Any goroutine may use it.
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

// WithLabelValues is the metric with these label values. It counts nowhere when it is called before
// the vector is registered.
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

func gauge(name, help string, level metrics.StabilityLevel, labels ...string) *gaugeVec {
	v := metrics.NewGaugeVec(&metrics.GaugeOpts{Subsystem: Subsystem, Name: name, Help: help, StabilityLevel: level},
		labels)
	return newCachedVec[metrics.GaugeMetric](v, v.WithLabelValues)
}

// gantryGauge is a gauge that upstream does not have.
func gantryGauge(name, help string, labels ...string) *gaugeVec {
	v := metrics.NewGaugeVec(&metrics.GaugeOpts{Namespace: "gantry", Subsystem: Subsystem, Name: name, Help: help,
		StabilityLevel: metrics.ALPHA}, labels)
	return newCachedVec[metrics.GaugeMetric](v, v.WithLabelValues)
}

func counter(name, help string, level metrics.StabilityLevel, labels ...string) *counterVec {
	v := metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: Subsystem, Name: name, Help: help,
		StabilityLevel: level}, labels)
	return newCachedVec[metrics.CounterMetric](v, v.WithLabelValues)
}

// histogram is one of alpha stability.
func histogram(name, help string, buckets []float64, labels ...string) *histogramVec {
	return histogramOf(&metrics.HistogramOpts{Name: name, Help: help, Buckets: buckets,
		StabilityLevel: metrics.ALPHA}, labels...)
}

func histogramOf(o *metrics.HistogramOpts, labels ...string) *histogramVec {
	o.Subsystem = Subsystem
	v := metrics.NewHistogramVec(o, labels)
	return newCachedVec[metrics.ObserverMetric](v, v.WithLabelValues)
}

// attemptBuckets are upstream's, 1 ms doubling to 16 s, and finer ones below.
func attemptBuckets() []float64 {
	return append([]float64{0.0001, 0.0002, 0.0005}, metrics.ExponentialBuckets(0.001, 2, 15)...)
}
