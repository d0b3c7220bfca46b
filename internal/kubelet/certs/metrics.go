package certs

import (
	"sync"

	"k8s.io/client-go/util/certificate"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// servingMetrics count what becomes of a serving certificate that is asked for; as upstream they
// are there when one is.
var servingMetrics = sync.OnceValues(func() (certificate.Histogram, certificate.Counter) {
	const minute, hour, day = 60, 3600, 86400
	rotated := metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem: "kubelet", Name: "certificate_manager_server_rotation_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "Histogram of the number of seconds the previous certificate lived before being rotated.",
		Buckets: []float64{minute, hour, 4 * hour, day, 7 * day, 30 * day, 90 * day, 180 * day, 360 * day, 1440 * day},
	})
	failed := metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: "kubelet", Name: "server_expiration_renew_errors", Help: "Counter of certificate renewal errors.",
		StabilityLevel: metrics.ALPHA,
	})
	legacyregistry.MustRegister(rotated, failed)
	return rotated, failed
})

// clientMetrics count renewals of a client certificate that failed.
var clientMetrics = sync.OnceValue(func() certificate.Counter {
	failed := metrics.NewCounter(&metrics.CounterOpts{
		Namespace: "kubelet", Subsystem: "certificate_manager", Name: "client_expiration_renew_errors",
		Help:           "Counter of certificate renewal errors.",
		StabilityLevel: metrics.ALPHA,
	})
	legacyregistry.MustRegister(failed)
	return failed
})
