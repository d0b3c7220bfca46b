package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/status"
)

// resourceCounter counts what is done with what only one Pod can have, and what plugins do.
type resourceCounter interface {
	managerCounter
	deviceCounter
	pluginCounter
}

// deviceCounter counts what is done with devices; deviceWork does.
type deviceCounter interface {
	pluginRegistered(resource string)
	pluginAllocated(resource string, took time.Duration)
	draOperation(name string, err error, took time.Duration)
	draCalled(driver, method string, err error, took time.Duration)
	podResourcesCalled(method string, failed bool)
}

// deviceWork counts calls of and to device plugins, drivers of claims and the PodResources API.
type deviceWork struct {
	registered                         *prometheus.CounterVec
	allocated, draOperations, draCalls *prometheus.HistogramVec
	podResources                       *prometheus.CounterVec
	podResourcesBy, podResourcesErrors map[string]*prometheus.CounterVec // by method
}

var draBuckets = prometheus.ExponentialBucketsRange(.1, 40, 15)

func newDeviceWork(k factory) *deviceWork {
	w := &deviceWork{
		registered: k.counter("kubelet_device_plugin_registration_total",
			"[ALPHA] Cumulative number of device plugin registrations. Broken down by resource name.", "resource_name"),
		allocated: k.histogram("kubelet_device_plugin_alloc_duration_seconds",
			"[ALPHA] Duration in seconds to serve a device plugin Allocation request. Broken down by resource name.",
			prometheus.DefBuckets, "resource_name"),
		draOperations: k.histogram("dra_operations_duration_seconds",
			"[ALPHA] Latency histogram in seconds for the duration of handling all ResourceClaims referenced by a "+
				"pod when the pod starts or stops. Identified by the name of the operation (PrepareResources or "+
				"UnprepareResources) and separated by the success of the operation. The number of failed operations "+
				"is provided through the histogram's overall count.", draBuckets, "operation_name", "is_error"),
		draCalls: k.histogram("dra_grpc_operations_duration_seconds",
			"[ALPHA] Duration in seconds of the DRA gRPC operations", draBuckets, "driver_name", "method_name",
			"grpc_status_code"),
		podResources: k.counter("kubelet_pod_resources_endpoint_requests_total",
			"[ALPHA] Cumulative number of requests to the PodResource endpoint. Broken down by server api version.",
			"server_api_version"),
		podResourcesBy: map[string]*prometheus.CounterVec{}, podResourcesErrors: map[string]*prometheus.CounterVec{},
	}
	for method, name := range map[string]string{"list": "List", "get": "Get",
		"get_allocatable": "GetAllocatableResources"} {
		w.podResourcesBy[method] = k.counter("kubelet_pod_resources_endpoint_requests_"+method,
			"[ALPHA] Number of requests to the PodResource "+name+" endpoint. Broken down by server api version.",
			"server_api_version")
		w.podResourcesErrors[method] = k.counter("kubelet_pod_resources_endpoint_errors_"+method,
			"[ALPHA] Number of requests to the PodResource "+name+
				" endpoint which returned error. Broken down by server api version.", "server_api_version")
	}
	return w
}

func (w *deviceWork) pluginRegistered(resource string) { w.registered.WithLabelValues(resource).Inc() }

func (w *deviceWork) pluginAllocated(resource string, took time.Duration) {
	w.allocated.WithLabelValues(resource).Observe(took.Seconds())
}

func (w *deviceWork) draOperation(name string, err error, took time.Duration) {
	w.draOperations.WithLabelValues(name, strconv.FormatBool(err != nil)).Observe(took.Seconds())
}

func (w *deviceWork) draCalled(driver, method string, err error, took time.Duration) {
	w.draCalls.WithLabelValues(driver, method, status.Code(err).String()).Observe(took.Seconds())
}

func (w *deviceWork) podResourcesCalled(method string, failed bool) {
	w.podResources.WithLabelValues("v1").Inc()
	w.podResourcesBy[method].WithLabelValues("v1").Inc()
	if failed {
		w.podResourcesErrors[method].WithLabelValues("v1").Inc()
	}
}

// DevicePluginRegistered counts a registration of a device plugin.
func (m *Metrics) DevicePluginRegistered(resource string) {
	if m != nil {
		m.managers.pluginRegistered(resource)
	}
}

// DevicePluginAllocated counts an Allocate call to a device plugin.
func (m *Metrics) DevicePluginAllocated(resource string, took time.Duration) {
	if m != nil {
		m.managers.pluginAllocated(resource, took)
	}
}

// DRAOperation counts PrepareResources and UnprepareResources of a Pod.
func (m *Metrics) DRAOperation(name string, err error, took time.Duration) {
	if m != nil {
		m.managers.draOperation(name, err, took)
	}
}

// DRACalled counts a call to a driver of claims.
func (m *Metrics) DRACalled(driver, method string, err error, took time.Duration) {
	if m != nil {
		m.managers.draCalled(driver, method, err, took)
	}
}

// PodResourcesCalled counts a call of the PodResources API: list, get or get_allocatable.
func (m *Metrics) PodResourcesCalled(method string, failed bool) {
	if m != nil {
		m.managers.podResourcesCalled(method, failed)
	}
}
