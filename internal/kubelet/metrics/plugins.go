package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/status"
	storagev1 "k8s.io/api/storage/v1"
)

// pluginCounter counts what others do for the kubelet; pluginWork does.
type pluginCounter interface {
	credentials(plugin string, took time.Duration, err error)
	credentialConfig(hash string)
	imageVolumes(requested, mounted, failed int)
	csiCalled(driver, method string, err error, took time.Duration)
	protectedMemory(min, low int64)
	storageHealth(driver string, conditions []storagev1.StorageHealthCondition)
}

// pluginWork counts runs of credential provider plugins, image volumes that the runtime mounts, and
// calls of CSI drivers.
type pluginWork struct {
	credentialsTook                              *prometheus.HistogramVec
	credentialErrors                             *prometheus.CounterVec
	credentialFiles                              *prometheus.GaugeVec
	imagesRequested, imagesMounted, imagesFailed prometheus.Counter
	csi                                          *prometheus.HistogramVec
	memoryMin, memoryLow                         prometheus.Gauge
	storage                                      *prometheus.GaugeVec
}

func newPluginWork(k factory) *pluginWork {
	return &pluginWork{
		credentialsTook: k.histogram("kubelet_credential_provider_plugin_duration",
			"[ALPHA] Duration of execution in seconds for credential provider plugin", prometheus.DefBuckets,
			"plugin_name"),
		credentialErrors: k.counter("kubelet_credential_provider_plugin_errors_total",
			"[ALPHA] Number of errors from credential provider plugin", "plugin_name"),
		credentialFiles: k.gauge("kubelet_credential_provider_config_info",
			"[ALPHA] Information about the last applied credential provider configuration with hash as label", "hash"),
		imagesRequested: k.counter("kubelet_image_volume_requested_total",
			"[BETA] Number of requested image volumes.").WithLabelValues(),
		imagesMounted: k.counter("kubelet_image_volume_mounted_succeed_total",
			"[BETA] Number of successful image volume mounts.").WithLabelValues(),
		imagesFailed: k.counter("kubelet_image_volume_mounted_errors_total",
			"[BETA] Number of failed image volume mounts.").WithLabelValues(),
		csi: k.histogram("csi_operations_seconds",
			"[ALPHA] Container Storage Interface operation duration with gRPC error code status total",
			[]float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}, "driver_name", "method_name",
			"grpc_status_code", "migrated"),
		storage: k.gauge("csi_node_storage_health_status",
			"[ALPHA] CSI node storage backend health conditions currently reported (1 = present).", "driver_name",
			"status", "reason"),
		memoryMin: k.gauge("kubelet_memory_qos_node_memory_min_bytes",
			"[ALPHA] Total cgroup v2 memory.min in bytes for Guaranteed pods. This memory is hard-reserved and never "+
				"reclaimed by the kernel.").WithLabelValues(),
		memoryLow: k.gauge("kubelet_memory_qos_node_memory_low_bytes",
			"[ALPHA] Total cgroup v2 memory.low in bytes for Burstable pods. This memory is soft-reserved and may be "+
				"reclaimed under extreme pressure.").WithLabelValues(),
	}
}

func (w *pluginWork) credentials(plugin string, took time.Duration, err error) {
	w.credentialsTook.WithLabelValues(plugin).Observe(took.Seconds())
	if err != nil {
		w.credentialErrors.WithLabelValues(plugin).Inc()
	}
}

func (w *pluginWork) credentialConfig(hash string) { w.credentialFiles.WithLabelValues(hash).Set(1) }

func (w *pluginWork) imageVolumes(requested, mounted, failed int) {
	w.imagesRequested.Add(float64(requested))
	w.imagesMounted.Add(float64(mounted))
	w.imagesFailed.Add(float64(failed))
}

func (w *pluginWork) csiCalled(driver, method string, err error, took time.Duration) {
	w.csi.WithLabelValues(driver, method, status.Code(err).String(), "false").Observe(took.Seconds())
}

func (w *pluginWork) protectedMemory(min, low int64) {
	w.memoryMin.Set(float64(min))
	w.memoryLow.Set(float64(low))
}

func (w *pluginWork) storageHealth(driver string, conditions []storagev1.StorageHealthCondition) {
	w.storage.DeletePartialMatch(prometheus.Labels{"driver_name": driver})
	for _, c := range conditions {
		w.storage.WithLabelValues(driver, string(c.Status), c.Reason).Set(1)
	}
}

// StorageHealth shows what a CSI driver says of its storage, in place of what it said before.
func (m *Metrics) StorageHealth(driver string, conditions []storagev1.StorageHealthCondition) {
	if m != nil {
		m.managers.storageHealth(driver, conditions)
	}
}

// CredentialPluginDone counts a run of a credential provider plugin.
func (m *Metrics) CredentialPluginDone(plugin string, took time.Duration, err error) {
	if m != nil {
		m.managers.credentials(plugin, took, err)
	}
}

// CredentialConfig shows which configuration of credential providers is in use; empty: none.
func (m *Metrics) CredentialConfig(hash string) {
	if m != nil && hash != "" {
		m.managers.credentialConfig(hash)
	}
}

// ImageVolumes counts what a container that is made asks of image volumes: how many, and their
// mounts.
func (m *Metrics) ImageVolumes(requested, mounted, failed int) {
	if m != nil {
		m.managers.imageVolumes(requested, mounted, failed)
	}
}

// CSICalled counts a call of a CSI driver; method is its full name.
func (m *Metrics) CSICalled(driver, method string, err error, took time.Duration) {
	if m != nil {
		m.managers.csiCalled(driver, method, err, took)
	}
}

// ProtectedMemory shows the bytes that the tiers of Guaranteed and Burstable Pods keep.
func (m *Metrics) ProtectedMemory(min, low int64) {
	if m != nil {
		m.managers.protectedMemory(min, low)
	}
}

// plugin states, upstream's words.
const (
	desiredState = "desired_state_of_world"
	actualState  = "actual_state_of_world"
)

// pluginSockets sends plugin_manager_total_plugins.
func (n *collector) pluginSockets(gauge func(*prometheus.Desc, float64, ...string)) {
	d := desc("plugin_manager_total_plugins", "[ALPHA] Number of plugins in Plugin Manager", "socket_path", "state")
	for socket, registered := range n.sources.Plugins() {
		gauge(d, 1, socket, desiredState)
		if registered {
			gauge(d, 1, socket, actualState)
		}
	}
}

// claims sends dra_resource_claims_in_use.
func (n *collector) claims(gauge func(*prometheus.Desc, float64, ...string)) {
	d := desc("dra_resource_claims_in_use",
		"[ALPHA] The number of ResourceClaims that are currently in use on the node, by driver name (driver_name "+
			"label value) and across all drivers (special value <any> for driver_name). Note that the sum of all "+
			"by-driver counts is not the total number of in-use ResourceClaims because the same ResourceClaim might "+
			"use devices from different drivers. Instead, use the count for the <any> driver_name.", "driver_name")
	total, byDriver := n.sources.Claims()
	gauge(d, float64(total), "<any>")
	for driver, count := range byDriver {
		gauge(d, float64(count), driver)
	}
}
