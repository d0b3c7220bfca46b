package store

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
)

// etcdFamilies begin the names of families that etcd's server itself counts. Others that begin with etcd_ are the API
// server's own, of its requests.
var etcdFamilies = []string{"etcd_server_", "etcd_disk_", "etcd_mvcc_", "etcd_debugging_", "etcd_network_", "etcd_cluster_", "etcd_grpc_"}

var showEtcd sync.Once

// serveEtcdMetrics has the API server's /metrics show what the embedded etcd counts: it has no port of its own where a
// Prometheus could scrape it, and there its credentials and rights count.
func serveEtcdMetrics() {
	showEtcd.Do(func() { legacyregistry.RawMustRegister(passed{prometheus.DefaultGatherer, ofEtcd}) })
}

func ofEtcd(name string) bool {
	for _, p := range etcdFamilies {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// passed shows families of one registry in another.
type passed struct {
	from   prometheus.Gatherer
	chosen func(name string) bool
}

// Describe sends nothing: what there is differs from scrape to scrape.
func (p passed) Describe(chan<- *prometheus.Desc) {}

// Collect gathers. A family that cannot be gathered is left out; the others are shown.
func (p passed) Collect(to chan<- prometheus.Metric) {
	families, _ := p.from.Gather() // what could be gathered is there beside the error
	for _, f := range families {
		if !p.chosen(f.GetName()) {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
			}
			to <- sample{prometheus.NewDesc(f.GetName(), f.GetHelp(), labels, nil), m}
		}
	}
}

// sample is a metric that was gathered already.
type sample struct {
	desc *prometheus.Desc
	of   *dto.Metric
}

func (s sample) Desc() *prometheus.Desc { return s.desc }

// Write copies the sample.
func (s sample) Write(out *dto.Metric) error {
	out.Label, out.Gauge, out.Counter, out.Summary, out.Untyped, out.Histogram, out.TimestampMs =
		s.of.GetLabel(), s.of.GetGauge(), s.of.GetCounter(), s.of.GetSummary(), s.of.GetUntyped(), s.of.GetHistogram(), s.of.TimestampMs
	return nil
}
