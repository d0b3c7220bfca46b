package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics is one kubelet's counters. A nil one counts nothing, so that parts can be tested alone.
type Metrics struct {
	registry, probes *prometheus.Registry
	runtime          runtimeCalls
	podWork          podWork
	pleg             pleg
	sli              startTimes
	cgroups          *prometheus.HistogramVec
	probing          probing
	http             httpWork
	storage          storageWork
	resizes          resizeWork
	node             nodeWork
	pods             *podTracker
}

// New returns counters at zero.
func New() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), probes: prometheus.NewRegistry(), pods: newPodTracker()}
	own := factory{m.registry}
	m.runtime = newRuntimeCalls(own)
	m.podWork = newPodWork(own)
	m.pleg = newPLEG(own)
	m.sli = newStartTimes(own)
	m.cgroups = own.histogram("kubelet_cgroup_manager_duration_seconds",
		"[ALPHA] Duration in seconds for cgroup manager operations. Broken down by method.", prometheus.DefBuckets,
		"operation_type")
	m.http = newHTTPWork(own)
	m.storage = newStorageWork(own)
	m.resizes = newResizeWork(own)
	m.node = newNodeWork(own)
	m.probing = newProbing(factory{m.probes}, own)
	return m
}

// factory registers what it makes. Names are constants, so that a clash is a mistake that the first
// test finds.
type factory struct{ registry *prometheus.Registry }

func (k factory) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	k.registry.MustRegister(c)
	return c
}

func (k factory) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	k.registry.MustRegister(g)
	return g
}

func (k factory) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	k.registry.MustRegister(h)
	return h
}

// Buckets as upstream's, in seconds.
var (
	lateBuckets  = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	callBuckets  = prometheus.ExponentialBuckets(.005, 2.5, 14)
	startBuckets = []float64{0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200,
		1800, 2700, 3600}
	pullBuckets = []float64{1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}
)

type runtimeCalls struct {
	total, failed *prometheus.CounterVec
	took          *prometheus.HistogramVec
	sandbox       *prometheus.HistogramVec
	sandboxFailed *prometheus.CounterVec
}

func newRuntimeCalls(k factory) runtimeCalls {
	return runtimeCalls{
		total: k.counter("kubelet_runtime_operations_total",
			"[ALPHA] Cumulative number of runtime operations by operation type.", "operation_type"),
		failed: k.counter("kubelet_runtime_operations_errors_total",
			"[ALPHA] Cumulative number of runtime operation errors by operation type.", "operation_type"),
		took: k.histogram("kubelet_runtime_operations_duration_seconds",
			"[ALPHA] Duration in seconds of runtime operations. Broken down by operation type.", callBuckets,
			"operation_type"),
		sandbox: k.histogram("kubelet_run_podsandbox_duration_seconds",
			"[ALPHA] Duration in seconds of the run_podsandbox operations. Broken down by RuntimeClass.Handler.",
			prometheus.DefBuckets, "runtime_handler"),
		sandboxFailed: k.counter("kubelet_run_podsandbox_errors_total",
			"[ALPHA] Cumulative number of the run_podsandbox operation errors by RuntimeClass.Handler.",
			"runtime_handler"),
	}
}

type podWork struct {
	worker                      *prometheus.HistogramVec
	workerStart, start, status  *prometheus.HistogramVec
	pull                        *prometheus.HistogramVec
	started, startFailed        *prometheus.CounterVec
	containers, containerFailed *prometheus.CounterVec
	terminated                  *prometheus.CounterVec
	released, refused           *prometheus.CounterVec
	restarts                    *prometheus.CounterVec
}

func newPodWork(k factory) podWork {
	return podWork{
		worker: k.histogram("kubelet_pod_worker_duration_seconds",
			"[ALPHA] Duration in seconds to sync a single pod. Broken down by operation type: create, update, or sync",
			prometheus.DefBuckets, "operation_type"),
		workerStart: k.histogram("kubelet_pod_worker_start_duration_seconds",
			"[ALPHA] Duration in seconds from kubelet seeing a pod to starting a worker.", prometheus.DefBuckets),
		start: k.histogram("kubelet_pod_start_duration_seconds",
			"[ALPHA] Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run",
			startBuckets),
		status: k.histogram("kubelet_pod_status_sync_duration_seconds",
			"[ALPHA] Duration in seconds to sync a pod status update. Measures time from detection of a change to pod "+
				"status until the API is successfully updated for that pod, even if multiple intevening changes to "+
				"pod status occur.", []float64{0.010, 0.050, 0.100, 0.500, 1, 5, 10, 20, 30, 45, 60}),
		pull: k.histogram("kubelet_image_pull_duration_seconds",
			"[ALPHA] Duration in seconds to pull an image.", pullBuckets, "image_size_in_bytes"),
		started: k.counter("kubelet_started_pods_total", "[ALPHA] Cumulative number of pods started"),
		startFailed: k.counter("kubelet_started_pods_errors_total",
			"[ALPHA] Cumulative number of errors when starting pods"),
		containers: k.counter("kubelet_started_containers_total",
			"[ALPHA] Cumulative number of containers started", "container_type"),
		containerFailed: k.counter("kubelet_started_containers_errors_total",
			"[ALPHA] Cumulative number of errors when starting containers", "code", "container_type"),
		terminated: k.counter("kubelet_terminated_containers_total",
			"[ALPHA] Cumulative number of container terminations.", "container_type", "exit_code", "reason"),
		released: k.counter("kubelet_released_pods_total",
			"Cumulative number of Pods of which nothing is left on the node"),
		refused: k.counter("kubelet_admission_rejections_total",
			"[ALPHA] Cumulative number pod admission rejections by the Kubelet.", "reason"),
		restarts: k.counter("kubelet_container_restarts_total",
			"Cumulative number of starts of containers that had run before"),
	}
}

type pleg struct {
	took, interval       *prometheus.HistogramVec
	lastSeen             *prometheus.GaugeVec
	connected, connError *prometheus.CounterVec
}

func newPLEG(k factory) pleg {
	return pleg{
		took: k.histogram("kubelet_pleg_relist_duration_seconds",
			"[ALPHA] Duration in seconds for relisting pods in PLEG.", prometheus.DefBuckets),
		interval: k.histogram("kubelet_pleg_relist_interval_seconds",
			"[ALPHA] Interval in seconds between relisting in PLEG.", prometheus.DefBuckets),
		lastSeen: k.gauge("kubelet_pleg_last_seen_seconds",
			"[ALPHA] Timestamp in seconds when PLEG was last seen active."),
		connected: k.counter("kubelet_evented_pleg_connection_success_count",
			"[ALPHA] The number of times a streaming client was obtained to receive CRI Events."),
		connError: k.counter("kubelet_evented_pleg_connection_error_count",
			"[ALPHA] The number of errors encountered during the establishment of streaming connection with the CRI "+
				"runtime."),
	}
}

type probing struct {
	total *prometheus.CounterVec
	took  *prometheus.HistogramVec
	late  *prometheus.HistogramVec
}

func newProbing(k, own factory) probing {
	started := k.gauge("process_start_time_seconds", "[ALPHA] Start time of the process since unix epoch in seconds.")
	started.WithLabelValues().Set(float64(time.Now().UnixNano()) / float64(time.Second))
	return probing{
		total: k.counter("prober_probe_total",
			"[BETA] Cumulative number of a liveness, readiness or startup probe for a container by result.",
			"container", "namespace", "pod", "pod_uid", "probe_type", "result"),
		took: k.histogram("prober_probe_duration_seconds", "[ALPHA] Duration in seconds for a probe response.",
			prometheus.DefBuckets, "container", "namespace", "pod", "probe_type"),
		late: own.histogram("gantry_probe_late_seconds",
			"Seconds between the time a probe was due and the time the kubelet asked.", lateBuckets, "probe_type"),
	}
}

type httpWork struct {
	total    *prometheus.CounterVec
	took     *prometheus.HistogramVec
	inflight *prometheus.GaugeVec
}

func newHTTPWork(k factory) httpWork {
	return httpWork{
		total: k.counter("kubelet_http_requests_total",
			"[ALPHA] Number of the http requests received since the server started", "long_running", "method", "path",
			"server_type"),
		took: k.histogram("kubelet_http_requests_duration_seconds",
			"[ALPHA] Duration in seconds to serve http requests", prometheus.DefBuckets, "long_running", "method",
			"path", "server_type"),
		inflight: k.gauge("kubelet_http_inflight_requests", "[ALPHA] Number of the inflight http requests",
			"long_running", "method", "path", "server_type"),
	}
}
