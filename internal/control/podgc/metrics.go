package podgc

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	deleted = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "pod_gc_collector", Name: "force_delete_pods_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of pods that are being forcefully deleted since the Pod GC Controller started.",
	}, []string{"namespace", "reason"})
	failed = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "pod_gc_collector", Name: "force_delete_pod_errors_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of errors encountered when forcefully deleting the pods since the Pod GC Controller started.",
	}, []string{"namespace", "reason"})
)

func init() { legacyregistry.MustRegister(deleted, failed) }

// count counts a removal and whether it failed.
func (r Removal) count(err error) {
	why := r.Reason
	switch {
	case r.Fail && r.Message == noNode:
		why = "orphaned"
	case r.Fail:
		why = "out-of-service"
	}
	deleted.WithLabelValues(r.Pod.Namespace, why).Inc()
	if err != nil {
		failed.WithLabelValues(r.Pod.Namespace, why).Inc()
	}
}
