package statefulset

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const subsystem = "statefulset_controller"

var (
	maxUnavailable = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: "statefulset_max_unavailable", StabilityLevel: metrics.ALPHA,
		Help: "Maximum number of unavailable pods allowed during StatefulSet rolling updates",
	}, []string{"statefulset_namespace", "statefulset_name", "pod_management_policy"})
	unavailableReplicas = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: "statefulset_unavailable_replicas", StabilityLevel: metrics.ALPHA,
		Help: "Current number of unavailable pods in StatefulSet",
	}, []string{"statefulset_namespace", "statefulset_name", "pod_management_policy"})
)

func init() { legacyregistry.MustRegister(maxUnavailable, unavailableReplicas) }

// recordMetrics shows how many Pods of a set may be unavailable in a rolling update, and how many
// are.
func recordMetrics(in In) {
	slots, _ := in.slotsByOrdinal()
	l := []string{in.Set.Namespace, in.Set.Name, string(in.Set.Spec.PodManagementPolicy)}
	maxUnavailable.WithLabelValues(l...).Set(float64(in.maxUnavailable(len(slots))))
	unavailableReplicas.WithLabelValues(l...).Set(float64(in.unavailable(slots)))
}

// forget takes away what is shown of a set that is gone.
func forget(namespace, name string) {
	of := map[string]string{"statefulset_namespace": namespace, "statefulset_name": name}
	maxUnavailable.DeletePartialMatch(of)
	unavailableReplicas.DeletePartialMatch(of)
}
