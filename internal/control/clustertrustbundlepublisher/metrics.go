package clustertrustbundlepublisher

import (
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

var (
	syncs = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "clustertrustbundle_publisher", Name: "sync_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of syncs that occurred in cluster trust bundle publisher.",
	}, []string{"code"})
	syncSeconds = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: "clustertrustbundle_publisher", Name: "sync_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help: "The time it took to sync a cluster trust bundle.", Buckets: metrics.ExponentialBuckets(0.001, 2, 15),
	}, []string{"code"})
)

func init() { legacyregistry.MustRegister(syncs, syncSeconds) }

// countSync counts a sync by the HTTP status of its error.
func countSync(took time.Duration, err error) {
	code := controllerruntime.StatusCode(err)
	syncs.WithLabelValues(code).Inc()
	syncSeconds.WithLabelValues(code).Observe(took.Seconds())
}
