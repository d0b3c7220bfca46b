package garbagecollector

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var syncErrors = metrics.NewCounter(&metrics.CounterOpts{
	Subsystem: "garbagecollector_controller", Name: "resources_sync_error_total", StabilityLevel: metrics.ALPHA,
	Help: "Number of garbage collector resources sync errors",
})

func init() { legacyregistry.MustRegister(syncErrors) }
