package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// resourceManagers counts what CPU, memory and topology manager give away.
type resourceManagers struct {
	requests, failures    map[string]prometheus.Counter // by manager
	shared, exclusive     prometheus.Gauge
	perNode               *prometheus.GaugeVec
	aligned, notAligned   *prometheus.CounterVec
	topologyRequests      prometheus.Counter
	topologyErrors        prometheus.Counter
	topologyAdmissionTook prometheus.Observer
}

func newResourceManagers(k factory) resourceManagers {
	one := func(name, help string) prometheus.Counter { return k.counter(name, "[ALPHA] "+help).WithLabelValues() }
	return resourceManagers{
		requests: map[string]prometheus.Counter{
			"cpu": one("kubelet_cpu_manager_pinning_requests_total",
				"The number of cpu core allocations which required pinning."),
			"memory": one("kubelet_memory_manager_pinning_requests_total",
				"The number of memory pages allocations which required pinning."),
		},
		failures: map[string]prometheus.Counter{
			"cpu": one("kubelet_cpu_manager_pinning_errors_total",
				"The number of cpu core allocations which required pinning failed."),
			"memory": one("kubelet_memory_manager_pinning_errors_total",
				"The number of memory pages allocations which required pinning that failed."),
		},
		shared: k.gauge("kubelet_cpu_manager_shared_pool_size_millicores",
			"[ALPHA] The size of the shared CPU pool for non-guaranteed QoS pods, in millicores.").WithLabelValues(),
		exclusive: k.gauge("kubelet_cpu_manager_exclusive_cpu_allocation_count",
			"[ALPHA] The total number of CPUs exclusively allocated to containers running on this node").
			WithLabelValues(),
		perNode: k.gauge("kubelet_cpu_manager_allocation_per_numa", "[ALPHA] Number of CPUs allocated per NUMA node",
			"numa_node"),
		aligned: k.counter("kubelet_container_aligned_compute_resources_count",
			"[ALPHA] Cumulative number of aligned compute resources allocated to containers by alignment type.",
			"scope",
			"boundary"),
		notAligned: k.counter("kubelet_container_aligned_compute_resources_failure_count",
			"[ALPHA] Cumulative number of failures to allocate aligned compute resources to containers by alignment "+
				"type.",
			"scope", "boundary"),
		topologyRequests: one("kubelet_topology_manager_admission_requests_total",
			"The number of admission requests where resources have to be aligned."),
		topologyErrors: one("kubelet_topology_manager_admission_errors_total",
			"The number of admission request failures where resources could not be aligned."),
		topologyAdmissionTook: k.histogram("kubelet_topology_manager_admission_duration_ms",
			"[ALPHA] Duration in milliseconds to serve a pod admission request.",
			prometheus.ExponentialBuckets(.05, 2, 15)).WithLabelValues(),
	}
}

func (r resourceManagers) pinning(manager string, failed bool) {
	r.requests[manager].Inc()
	if failed {
		r.failures[manager].Inc()
	}
}

// CPUPinning counts a container or Pod that asked for exclusive CPUs.
func (m *Metrics) CPUPinning(failed bool) {
	if m != nil {
		m.managers.pinning("cpu", failed)
	}
}

// MemoryPinning counts a container or Pod that asked for exclusive memory.
func (m *Metrics) MemoryPinning(failed bool) {
	if m != nil {
		m.managers.pinning("memory", failed)
	}
}

// CPUPool shows how many CPUs can still be given away and how many are exclusive.
func (m *Metrics) CPUPool(shared, exclusive int, byNode map[int]int) {
	if m != nil {
		m.managers.pool(shared, exclusive, byNode)
	}
}

// AlignedResources counts an allocation by what it was to be aligned to.
func (m *Metrics) AlignedResources(scope, boundary string, failed bool) {
	if m != nil {
		m.managers.alignment(scope, boundary, failed)
	}
}

// TopologyAdmission implements topologymanager.Metrics.
func (m *Metrics) TopologyAdmission(scope string, aligned, admitted bool, took time.Duration) {
	if m == nil {
		return
	}
	m.managers.topologyAdmission(admitted, took)
	if aligned {
		m.managers.alignment(scope, "numa_node", !admitted)
	}
}

func (r resourceManagers) pool(shared, exclusive int, byNode map[int]int) {
	r.shared.Set(float64(shared * 1000))
	r.exclusive.Set(float64(exclusive))
	r.perNode.Reset()
	for node, n := range byNode {
		r.perNode.WithLabelValues(strconv.Itoa(node)).Set(float64(n))
	}
}

func (r resourceManagers) alignment(scope, boundary string, failed bool) {
	if failed {
		r.notAligned.WithLabelValues(scope, boundary).Inc()
	} else {
		r.aligned.WithLabelValues(scope, boundary).Inc()
	}
}

func (r resourceManagers) topologyAdmission(admitted bool, took time.Duration) {
	r.topologyRequests.Inc()
	r.topologyAdmissionTook.Observe(float64(took.Milliseconds()))
	if !admitted {
		r.topologyErrors.Inc()
	}
}
