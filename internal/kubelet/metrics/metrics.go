package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

// Metrics is one kubelet's counters: parts that count, and the registries that show them. A nil one
// counts nothing, so that components can be tested alone.
type Metrics struct {
	registry, probes *prometheus.Registry
	pods             podCounter
	runtime          callCounter
	pleg             relistCounter
	cgroups          *prometheus.HistogramVec
	probing          probing
	http             httpWork
	storage          storageWork
	resizes          resizeWork
	admissions       admissions
	managers         resourceCounter
	node             nodeWork
}

// podCounter counts what happens to Pods; podMetrics does.
type podCounter interface {
	count(ref journal.Ref, fact journal.Fact, now time.Time)
	workerDone(operation string, took time.Duration)
	admitted(p *v1.Pod)
	hookFellBack()
	sleepEnded()
	// ref names a Pod that is on the node; ok is false for others.
	ref(uid string) (ref journal.Ref, ok bool)
}

// callCounter counts calls to the runtime; runtimeCalls does. method is its name in the protocol.
type callCounter interface {
	called(method string, took time.Duration, err error)
}

// relistCounter counts what pleg does; plegMetrics does.
type relistCounter interface {
	relisted(now time.Time, took time.Duration)
	sinceRelist(now time.Time) time.Duration
	connected(err error)
}

// managerCounter counts what CPU, memory and topology manager give away; resourceManagers does.
type managerCounter interface {
	pinning(manager string, failed bool)
	pool(shared, exclusive int, byNode map[int]int)
	alignment(scope, boundary string, failed bool)
	topologyAdmission(admitted bool, took time.Duration)
}

// New returns counters at zero.
func New() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), probes: prometheus.NewRegistry()}
	own := factory{m.registry}
	m.pods = newPodMetrics(own)
	m.runtime = newRuntimeCalls(own)
	m.pleg = newPLEG(own)
	m.cgroups = own.histogram("kubelet_cgroup_manager_duration_seconds",
		"[ALPHA] Duration in seconds for cgroup manager operations. Broken down by method.", prometheus.DefBuckets,
		"operation_type")
	m.http = newHTTPWork(own)
	m.storage = newStorageWork(own)
	m.resizes = newResizeWork(own)
	m.admissions = newAdmissions(own)
	m.managers = struct {
		managerCounter
		deviceCounter
		pluginCounter
	}{newResourceManagers(own), newDeviceWork(own), newPluginWork(own)}
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
