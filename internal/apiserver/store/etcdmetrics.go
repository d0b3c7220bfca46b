package store

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
)

// etcdFamilies are prefixes of the metrics of etcd's server. Others that begin with etcd_ are the
// API server's own.
var etcdFamilies = []string{"etcd_server_", "etcd_disk_", "etcd_mvcc_", "etcd_debugging_", "etcd_network_",
	"etcd_cluster_", "etcd_grpc_"}

var registerEtcdMetrics sync.Once

// serveEtcdMetrics adds the embedded etcd's metrics to the API server's /metrics: the embedded etcd
// has no port of its own to scrape.
func serveEtcdMetrics() {
	registerEtcdMetrics.Do(
		func() { legacyregistry.RawMustRegister(gathererFilter{prometheus.DefaultGatherer, isEtcdFamily}) })
}

// isEtcdFamily reports whether a metric of that name is etcd's.
func isEtcdFamily(name string) bool {
	for _, p := range etcdFamilies {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// gathererFilter is a prometheus.Collector of some metric families of another registry.
type gathererFilter struct {
	from    prometheus.Gatherer
	include func(name string) bool
}

// Describe implements prometheus.Collector; it sends nothing, as the metrics differ from scrape to
// scrape (an unchecked collector).
func (p gathererFilter) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. A family that cannot be gathered is left out.
func (p gathererFilter) Collect(to chan<- prometheus.Metric) {
	families, _ := p.from.Gather() // returns what it could gather beside the error
	for _, f := range families {
		if !p.include(f.GetName()) {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
			}
			to <- gatheredMetric{prometheus.NewDesc(f.GetName(), f.GetHelp(), labels, nil), m}
		}
	}
}

// gatheredMetric is a metric with the sample that was gathered.
type gatheredMetric struct {
	desc   *prometheus.Desc
	metric *dto.Metric
}

func (s gatheredMetric) Desc() *prometheus.Desc { return s.desc }

// Write implements prometheus.Metric.
func (s gatheredMetric) Write(out *dto.Metric) error {
	out.Label, out.Gauge, out.Counter, out.Summary, out.Untyped, out.Histogram, out.TimestampMs =
		s.metric.GetLabel(), s.metric.GetGauge(), s.metric.GetCounter(), s.metric.GetSummary(), s.metric.GetUntyped(),
		s.metric.GetHistogram(), s.metric.TimestampMs
	return nil
}
