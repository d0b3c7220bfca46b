package store

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
)

// The embedded etcd's figures are in the registry that the API server's /metrics shows, with their
// types and labels.
//
// row: OPS-11
func TestEtcdIsMeasuredOnTheAPIServersPort(t *testing.T) {
	s, err := Open(t.Context(), Options{Dir: t.TempDir(), NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]string{}
	for _, f := range families {
		types[f.GetName()] = f.GetType().String()
	}
	for name, want := range map[string]string{
		"etcd_server_has_leader": "GAUGE", "etcd_server_proposals_committed_total": "GAUGE",
		"etcd_disk_wal_fsync_duration_seconds": "HISTOGRAM",
		"etcd_mvcc_db_total_size_in_bytes":     "GAUGE", "etcd_server_leader_changes_seen_total": "COUNTER",
	} {
		if types[name] != want {
			t.Errorf("%s is of type %q, want %s", name, types[name], want)
		}
	}
}

// What another registry has is shown as it is there, chosen by name.
func TestFamiliesArePassedOn(t *testing.T) {
	from, to := prometheus.NewRegistry(), prometheus.NewRegistry()
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "etcd_server_x_total", Help: "x"}, []string{"b", "a"})
	c.WithLabelValues("2", "1").Add(7)
	other := prometheus.NewGauge(prometheus.GaugeOpts{Name: "etcd_requests", Help: "the API server's own"})
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "etcd_disk_y", Help: "y", Buckets: []float64{1}})
	h.Observe(3)
	from.MustRegister(c, other, h)
	to.MustRegister(gathererFilter{from, isEtcdFamily})
	families, err := to.Gather()
	if err != nil || len(families) != 2 {
		t.Fatalf("got %v, %v, want no error and 2 in families", families, err)
	}
	if y, x := families[0].GetMetric()[0], families[1].GetMetric()[0]; y.GetHistogram().GetSampleSum() != 3 ||
		x.GetCounter().GetValue() != 7 ||
		x.GetLabel()[0].GetName() != "a" || x.GetLabel()[0].GetValue() != "1" || families[1].GetHelp() != "x" {
		t.Errorf("got %v, want y.GetHistogram().GetSampleSum() 3, x.GetCounter().GetValue() 7, "+
			"x.GetLabel()[0].GetName() a, x.GetLabel()[0].GetValue() 1 and families[1].GetHelp() x", families)
	}
}
