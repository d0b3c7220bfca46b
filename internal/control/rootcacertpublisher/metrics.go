package rootcacertpublisher

import (
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

var (
	syncs = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "root_ca_cert_publisher", Name: "sync_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of namespace syncs happened in root ca cert publisher.",
	}, []string{"code"})
	syncSeconds = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: "root_ca_cert_publisher", Name: "sync_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "Number of namespace syncs happened in root ca cert publisher.",
		Buckets: metrics.ExponentialBuckets(0.001, 2, 15),
	}, []string{"code"})
)

func init() { legacyregistry.MustRegister(syncs, syncSeconds) }

// countSync counts a sync by the HTTP status of its error.
func countSync(took time.Duration, err error) {
	code := controllerruntime.StatusCode(err)
	syncs.WithLabelValues(code).Inc()
	syncSeconds.WithLabelValues(code).Observe(took.Seconds())
}
