package orphans

import (
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	objects = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "gantry", Subsystem: "apiserver", Name: "orphaned_objects", StabilityLevel: metrics.ALPHA,
		Help: "Objects whose namespace does not exist that the last audit found, by what became of them",
	}, []string{"namespace", "resource", "outcome"})
	audited = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "gantry", Subsystem: "apiserver", Name: "orphan_audit_timestamp_seconds", StabilityLevel: metrics.ALPHA,
		Help: "When stored objects were last checked for namespaces that do not exist",
	})
	register sync.Once
)

// observe keeps the last audit that could read everything.
func observe(r Report, err error, now time.Time) {
	register.Do(func() { legacyregistry.MustRegister(objects, audited) })
	if err != nil {
		return
	}
	objects.Reset()
	for _, g := range r.Groups {
		if g.Outcome != Spared {
			objects.WithLabelValues(g.Namespace, g.Resource, string(g.Outcome)).Set(float64(g.Count))
		}
	}
	audited.Set(float64(now.UnixMilli()) / 1000)
}
