package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/gantry-project/gantry/internal/kubelet/resource"
)

// admissions counts which Pods the node takes in, and what it does to have room for them.
type admissions struct {
	counts  map[string]*prometheus.CounterVec // of Pods and images that had to go, and of Pods that run again
	levels  *prometheus.CounterVec
	perPod  *prometheus.HistogramVec
	orphans prometheus.Counter
}

func newAdmissions(k factory) admissions {
	a := admissions{
		counts: map[string]*prometheus.CounterVec{
			"pods": k.counter("kubelet_preemptions",
				"[ALPHA] Cumulative number of pod preemptions by preemption resource", "preemption_signal"),
			"images": k.counter("kubelet_image_garbage_collected_total",
				"[ALPHA] Total number of images garbage collected by the kubelet, whether through disk usage or "+
					"image age.", "reason"),
			"restarted": k.counter("kubelet_restarted_pods_total",
				"[ALPHA] Number of pods that have been restarted because they were deleted and recreated with the "+
					"same UID while the kubelet was watching them (common for static pods, extremely uncommon for "+
					"API pods)", "static"),
		},
		levels: k.counter("kubelet_pod_level_resources_admission_total",
			"[ALPHA] Total number of pods admitted during Kubelet admission, categorized by resource configuration "+
				"mode (pod_and_container_level, pod_level, container_level, or empty for unconfigured/BestEffort) "+
				"and QoS class.", "config_mode", "qos_class"),
		perPod: k.histogram("kubelet_containers_per_pod_count", "[ALPHA] The number of containers per pod.",
			prometheus.ExponentialBuckets(1, 2, 5)),
		orphans: k.counter("kubelet_orphaned_runtime_pods_total",
			"[ALPHA] Number of pods that have been detected in the container runtime without being already known to "+
				"the pod worker. This typically indicates the kubelet was restarted while a pod was force deleted in "+
				"the API or in the local configuration, which is unusual.").WithLabelValues(),
	}
	for _, static := range []string{"true", ""} { // both are there from the beginning
		a.counts["restarted"].WithLabelValues(static)
	}
	return a
}

// Preempted counts Pods that were ended for a critical one that lacked a resource.
func (m *Metrics) Preempted(resource string, pods int) {
	if m != nil {
		m.admissions.counts["pods"].WithLabelValues(resource).Add(float64(pods))
	}
}

// ImageCollected counts an image that was removed, for want of space or for its age.
func (m *Metrics) ImageCollected(reason string) {
	if m != nil {
		m.admissions.counts["images"].WithLabelValues(reason).Inc()
	}
}

// Orphaned counts a Pod that only the runtime had.
func (m *Metrics) Orphaned() {
	if m != nil {
		m.admissions.orphans.Inc()
	}
}

// StaticPodRestarted counts a static Pod that runs again under the UID that it had.
func (m *Metrics) StaticPodRestarted() {
	if m != nil {
		m.admissions.counts["restarted"].WithLabelValues("true").Inc()
	}
}

// Admitted counts a Pod that is let in.
func (m *Metrics) Admitted(p *v1.Pod) {
	if m == nil {
		return
	}
	m.pods.admitted(p)
	m.admissions.perPod.WithLabelValues().Observe(float64(len(p.Spec.Containers)))
	containers := false
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for _, c := range list {
			containers = containers || len(c.Resources.Requests)+len(c.Resources.Limits) > 0
		}
	}
	mode := map[[2]bool]string{{true, true}: "pod_and_container_level", {true, false}: "pod_level",
		{false, true}: "container_level"}
	m.admissions.levels.WithLabelValues(mode[[2]bool{resourcehelper.IsPodLevelResourcesSet(p), containers}],
		strings.ToLower(string(resource.QOS(p)))).Inc()
}
