package replicaset

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var deletionAgeRatio = metrics.NewHistogram(&metrics.HistogramOpts{
	Subsystem: "replicaset_controller", Name: "sorting_deletion_age_ratio", StabilityLevel: metrics.ALPHA,
	Help: "The ratio of chosen deleted pod's ages to the current youngest pod's age (at the time). Should be <2. " +
		"The intent of this metric is to measure the rough efficacy of the sorting (and deletion) of pods when " +
		"a replicaset scales down. This only considers Ready pods when calculating and reporting.",
	Buckets: metrics.ExponentialBuckets(0.25, 2, 6),
})

func init() { legacyregistry.MustRegister(deletionAgeRatio) }
