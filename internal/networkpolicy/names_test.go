package networkpolicy

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gantry-project/gantry/test/metriclist"
)

// The metrics page lists the NetworkPolicy controller's metrics on the kubelet's port.
func TestMetricsAreListed(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister((&Controller{metrics: newMetrics()}).Collectors()...)
	metriclist.Check(t, "network", true, metriclist.Registered(t, r))
}
