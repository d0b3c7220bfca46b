package control

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection" // as `gantry controllers` has them
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	_ "k8s.io/component-base/metrics/prometheus/slis"
	_ "k8s.io/component-base/metrics/prometheus/version"
	_ "k8s.io/component-base/metrics/prometheus/workqueue"
	"k8s.io/endpointslice/metrics"

	"github.com/gantry-project/gantry/internal/control/horizontalpodautoscaler"
	"github.com/gantry-project/gantry/test/metriclist"
)

// The list of the page of metrics is what the controllers register.
func TestMetricsAreListed(t *testing.T) {
	metrics.RegisterMetrics() // as the EndpointSlice controller does when it starts
	horizontalpodautoscaler.RegisterMetrics()
	r, ok := legacyregistry.Registerer().(*prometheus.Registry)
	if !ok {
		t.Fatalf("got a registry of type %T, want *prometheus.Registry", legacyregistry.Registerer())
	}
	metriclist.Check(t, "controllers", true, metriclist.Registered(t, r))
}
