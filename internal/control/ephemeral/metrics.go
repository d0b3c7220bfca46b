package ephemeral

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const (
	subsystem = "ephemeral_volume_controller"
	help      = "Number of PersistentVolumeClaim creation requests" // upstream's for both
)

var (
	created = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "create_total", StabilityLevel: metrics.ALPHA, Help: help,
	})
	notCreated = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "create_failures_total", StabilityLevel: metrics.ALPHA, Help: help,
	})
)

func init() { legacyregistry.MustRegister(created, notCreated) }
