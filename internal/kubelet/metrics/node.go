package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/resource"
)

// nodeWork counts what the node does beside driving Pods: its own start and end, and making room.
type nodeWork struct {
	evictions, preemptions, collected, levels *prometheus.CounterVec
	perPod                                    *prometheus.HistogramVec
	orphans                                   prometheus.Counter
	startup                                   map[string]prometheus.Gauge // by upstream's word for the span
	shutdownStart, shutdownEnd                prometheus.Gauge
}

func newNodeWork(k factory) nodeWork {
	w := nodeWork{
		evictions: k.counter("kubelet_evictions", "[ALPHA] Cumulative number of pod evictions by eviction signal",
			"eviction_signal"),
		preemptions: k.counter("kubelet_preemptions",
			"[ALPHA] Cumulative number of pod preemptions by preemption resource", "preemption_signal"),
		collected: k.counter("kubelet_image_garbage_collected_total",
			"[ALPHA] Total number of images garbage collected by the kubelet, whether through disk usage or image age.",
			"reason"),
		levels: k.counter("kubelet_pod_level_resources_admission_total",
			"[ALPHA] Total number of pods admitted during Kubelet admission, "+
				"categorized by resource configuration mode (pod_and_container_level, pod_level, container_level, or "+
				"empty for "+
				"unconfigured/BestEffort) and QoS class.", "config_mode", "qos_class"),
		perPod: k.histogram("kubelet_containers_per_pod_count", "[ALPHA] The number of containers per pod.",
			prometheus.ExponentialBuckets(1, 2, 5)),
		orphans: k.counter("kubelet_orphaned_runtime_pods_total",
			"[ALPHA] Number of pods that have been detected in the container runtime "+
				"without being already known to the pod worker. This typically indicates the kubelet was restarted "+
				"while a pod was force "+
				"deleted in the API or in the local configuration, which is unusual.").WithLabelValues(),
		startup: map[string]prometheus.Gauge{},
	}
	for span, help := range map[string]string{
		"pre_kubelet_": "before kubelet starts.", "pre_registration_": "before registration.",
		"registration_":      "during registration.",
		"post_registration_": "after registration.", "": "in total.",
	} {
		w.startup[span] = k.gauge("kubelet_node_startup_"+span+"duration_seconds",
			"[ALPHA] Duration in seconds of node startup "+help).WithLabelValues()
	}
	w.shutdownStart = k.gauge("kubelet_graceful_shutdown_start_time_seconds",
		"[ALPHA] Last graceful shutdown start time since unix epoch in seconds").WithLabelValues()
	w.shutdownEnd = k.gauge("kubelet_graceful_shutdown_end_time_seconds",
		"[ALPHA] Last graceful shutdown end time since unix epoch in seconds").WithLabelValues()
	return w
}

// evictionSignals are upstream's words for limits of local storage.
var evictionSignals = map[string]string{
	journal.OfVolume: "emptydirfs.limit", journal.OfPod: "ephemeralpodfs.limit",
	journal.OfContainer: "ephemeralcontainerfs.limit",
}

// Preempted counts Pods that were ended for a critical one that lacked a resource.
func (m *Metrics) Preempted(resource string, pods int) {
	if m != nil {
		m.node.preemptions.WithLabelValues(resource).Add(float64(pods))
	}
}

// ImageCollected counts an image that was removed, for want of space or for its age.
func (m *Metrics) ImageCollected(reason string) {
	if m != nil {
		m.node.collected.WithLabelValues(reason).Inc()
	}
}

// Orphaned counts a Pod that only the runtime had.
func (m *Metrics) Orphaned() {
	if m != nil {
		m.node.orphans.Inc()
	}
}

// Admitted counts a Pod that is let in.
func (m *Metrics) Admitted(p *v1.Pod) {
	if m == nil {
		return
	}
	m.node.perPod.WithLabelValues().Observe(float64(len(p.Spec.Containers)))
	containers := false
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for _, c := range list {
			containers = containers || len(c.Resources.Requests)+len(c.Resources.Limits) > 0
		}
	}
	mode := map[[2]bool]string{{true, true}: "pod_and_container_level", {true, false}: "pod_level",
		{false, true}: "container_level"}
	m.node.levels.WithLabelValues(mode[[2]bool{resourcehelper.IsPodLevelResourcesSet(p), containers}],
		strings.ToLower(string(resource.QOS(p)))).Inc()
}

// Startup are the moments of a node's start; a zero one is not known.
type Startup struct{ Boot, Kubelet, Attempt, Registered, Ready time.Time }

// Started shows how long the start of a node took that this kubelet registered.
func (m *Metrics) Started(s Startup) {
	if m == nil {
		return
	}
	for span, of := range map[string][2]time.Time{
		"pre_kubelet_": {s.Boot, s.Kubelet}, "pre_registration_": {s.Kubelet, s.Attempt},
		"registration_":      {s.Attempt, s.Registered},
		"post_registration_": {s.Registered, s.Ready}, "": {s.Boot, s.Ready},
	} {
		if !of[0].IsZero() && !of[1].IsZero() {
			m.node.startup[span].Set(of[1].Sub(of[0]).Seconds())
		}
	}
}

// Shutdown shows that the machine's orderly end begins, or that all Pods have ended for it.
func (m *Metrics) Shutdown(begins bool, now time.Time) {
	switch at := float64(now.UnixNano()) / float64(time.Second); {
	case m == nil:
	case begins:
		m.node.shutdownStart.Set(at)
		m.node.shutdownEnd.Set(0)
	default:
		m.node.shutdownEnd.Set(at)
	}
}
