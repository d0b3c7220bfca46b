package ttlafterfinished

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var deletionSeconds = metrics.NewHistogram(&metrics.HistogramOpts{
	Subsystem: "ttl_after_finished_controller", Name: "job_deletion_duration_seconds", StabilityLevel: metrics.ALPHA,
	Help:    "The time it took to delete the job since it became eligible for deletion",
	Buckets: metrics.ExponentialBuckets(0.1, 2, 14),
})

func init() { legacyregistry.MustRegister(deletionSeconds) }
