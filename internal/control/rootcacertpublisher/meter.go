package rootcacertpublisher

import (
	"errors"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
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
	code := "200"
	if err != nil {
		code = "500"
	}
	if s := apierrors.APIStatus(nil); errors.As(err, &s) && s.Status().Code != 0 {
		code = strconv.Itoa(int(s.Status().Code))
	}
	syncs.WithLabelValues(code).Inc()
	syncSeconds.WithLabelValues(code).Observe(took.Seconds())
}
