package store

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
)

// etcdFamilies begin the names of families that etcd's server itself counts. Others that begin with
// etcd_ are the API server's own, of its requests.
var etcdFamilies = []string{"etcd_server_", "etcd_disk_", "etcd_mvcc_", "etcd_debugging_", "etcd_network_",
	"etcd_cluster_", "etcd_grpc_"}

var registerEtcdMetrics sync.Once

// serveEtcdMetrics has the API server's /metrics show what the embedded etcd counts: it has no port
// of its own where a Prometheus could scrape it, and there its credentials and rights count.
func serveEtcdMetrics() {
	registerEtcdMetrics.Do(
		func() { legacyregistry.RawMustRegister(gathererFilter{prometheus.DefaultGatherer, isEtcdFamily}) })
}

func isEtcdFamily(name string) bool {
	for _, p := range etcdFamilies {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// gathererFilter shows families of one registry in another.
type gathererFilter struct {
	from    prometheus.Gatherer
	include func(name string) bool
}

// Describe sends nothing: what there is differs from scrape to scrape.
func (p gathererFilter) Describe(chan<- *prometheus.Desc) {}

// Collect gathers. A family that cannot be gathered is left out; the others are shown.
func (p gathererFilter) Collect(to chan<- prometheus.Metric) {
	families, _ := p.from.Gather() // what could be gathered is there beside the error
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

// gatheredMetric is a metric that was gathered already.
type gatheredMetric struct {
	desc   *prometheus.Desc
	metric *dto.Metric
}

func (s gatheredMetric) Desc() *prometheus.Desc { return s.desc }

// Write copies the sample.
func (s gatheredMetric) Write(out *dto.Metric) error {
	out.Label, out.Gauge, out.Counter, out.Summary, out.Untyped, out.Histogram, out.TimestampMs =
		s.metric.GetLabel(), s.metric.GetGauge(), s.metric.GetCounter(), s.metric.GetSummary(), s.metric.GetUntyped(),
		s.metric.GetHistogram(), s.metric.TimestampMs
	return nil
}
