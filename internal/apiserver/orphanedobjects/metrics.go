package orphanedobjects

import (
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	orphanedObjects = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "gantry", Subsystem: "apiserver", Name: "orphaned_objects", StabilityLevel: metrics.ALPHA,
		Help: "Objects whose namespace does not exist that the last audit found, by what became of them",
	}, []string{"namespace", "resource", "outcome"})
	lastAudit = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "gantry", Subsystem: "apiserver", Name: "orphan_audit_timestamp_seconds",
		StabilityLevel: metrics.ALPHA,
		Help:           "When stored objects were last checked for namespaces that do not exist",
	})
	registerOnce sync.Once
)

// recordMetrics keeps the last audit that could read everything.
func recordMetrics(r Report, err error, now time.Time) {
	registerOnce.Do(func() { legacyregistry.MustRegister(orphanedObjects, lastAudit) })
	if err != nil {
		return
	}
	orphanedObjects.Reset()
	for _, g := range r.Groups {
		if g.Outcome != Skipped {
			orphanedObjects.WithLabelValues(g.Namespace, g.Resource, string(g.Outcome)).Set(float64(g.Count))
		}
	}
	lastAudit.Set(float64(now.UnixMilli()) / 1000)
}
