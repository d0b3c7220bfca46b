package cronjob

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var creationSkew = metrics.NewHistogram(&metrics.HistogramOpts{
	Subsystem: "cronjob_controller", Name: "job_creation_skew_duration_seconds", StabilityLevel: metrics.STABLE,
	Help:    "Time between when a cronjob is scheduled to be run, and when the corresponding job is created",
	Buckets: metrics.ExponentialBuckets(1, 2, 10),
})

func init() { legacyregistry.MustRegister(creationSkew) }
