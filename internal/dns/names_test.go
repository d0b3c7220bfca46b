package dns

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gantry-project/gantry/test/metriclist"
)

// The list of the page of metrics is what CoreDNS's plugins register.
func TestMetricsAreListed(t *testing.T) {
	r, ok := prometheus.DefaultRegisterer.(*prometheus.Registry)
	if !ok {
		t.Fatalf("got a registry of type %T, want *prometheus.Registry", prometheus.DefaultRegisterer)
	}
	metriclist.Check(t, "dns", true, metriclist.Named(metriclist.Registered(t, r), "coredns_"))
}
