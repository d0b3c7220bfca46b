package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const priorityBuckets = "Label 'priority_bucket' classifies the pod priority (system-critical: >=2000000000, high: " +
	"100000..1999999999, medium: 1..99999, normal: 0/default, low: -999..-1, very-low: <=-1000, unknown: nil pod). "

// resizeWork counts changes of the sizes of Pods that run.
type resizeWork struct {
	requested, infeasible *prometheus.CounterVec
	took, deferred        *prometheus.HistogramVec
}

func newResizeWork(k factory) resizeWork {
	return resizeWork{
		requested: k.counter("kubelet_container_requested_resizes_total",
			"[ALPHA] Number of requested resizes, counted at the container level. Different resources on the same "+
				"container are counted separately. The 'requirement' label refers to 'memory' or 'limits'; the "+
				"'operation' label can be one of 'add', 'remove', 'increase' or 'decrease'.", "resource",
			"requirement", "operation"),
		infeasible: k.counter("kubelet_pod_infeasible_resizes_total", "[ALPHA] Number of infeasible resizes for pods.",
			"reason_detail"),
		took: k.histogram("kubelet_pod_resize_duration_milliseconds",
			"[ALPHA] Duration in milliseconds to actuate a pod resize",
			[]float64{10, 50, 100, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000},
			"success"),
		deferred: k.histogram("kubelet_pod_deferred_resize_duration_seconds",
			"[ALPHA] Duration in seconds that a pod resize remains deferred "+
				"before completion. "+priorityBuckets+"Label 'resolution' describes how the deferred resize was "+
				"resolved (accepted, reverted, terminated).",
			[]float64{5, 10, 15, 20, 30, 45, 60, 90, 120, 150, 180, 300, 600, 1200, 1800, 3600}, "resolution",
			"priority_bucket"),
	}
}

// ResizeRequested counts what a Pod's containers are to get otherwise than before.
func (m *Metrics) ResizeRequested(before, after *v1.Pod) {
	if m == nil {
		return
	}
	old := map[string]v1.ResourceRequirements{}
	for _, list := range [][]v1.Container{before.Spec.InitContainers, before.Spec.Containers} {
		for _, c := range list {
			old[c.Name] = c.Resources
		}
	}
	for _, list := range [][]v1.Container{after.Spec.InitContainers, after.Spec.Containers} {
		for _, c := range list {
			for _, name := range []v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU} {
				m.changed(string(name), "requests", old[c.Name].Requests[name], c.Resources.Requests[name])
				m.changed(string(name), "limits", old[c.Name].Limits[name], c.Resources.Limits[name])
			}
		}
	}
}

func (m *Metrics) changed(name, requirement string, before, after resource.Quantity) {
	operation := ""
	switch c := after.Cmp(before); {
	case c == 0:
		return
	case before.IsZero():
		operation = "add"
	case after.IsZero():
		operation = "remove"
	case c > 0:
		operation = "increase"
	default:
		operation = "decrease"
	}
	m.resizes.requested.WithLabelValues(name, requirement, operation).Inc()
}

// ResizeInfeasible counts a resize that the node will never grant; message says why.
func (m *Metrics) ResizeInfeasible(message string) {
	if m == nil {
		return
	}
	for text, detail := range map[string]string{
		"with swap": "swap_limitation", "CPU Manager policy": "guaranteed_pod_cpu_manager_static_policy",
		"Memory Manager policy": "guaranteed_pod_memory_manager_static_policy",
	} {
		if strings.Contains(message, text) {
			m.resizes.infeasible.WithLabelValues(detail).Inc()
		}
	}
}

// ResizeDeferred counts how long a resize was put off; resolution is accepted, reverted or
// terminated.
func (m *Metrics) ResizeDeferred(p *v1.Pod, resolution string, took time.Duration) {
	if m != nil {
		m.resizes.deferred.WithLabelValues(resolution, priorityBucket(p)).Observe(took.Seconds())
	}
}

// Resized counts one try to put granted sizes in force.
func (m *Metrics) Resized(took time.Duration, err error) {
	if m != nil {
		m.resizes.took.WithLabelValues(map[bool]string{true: "true", false: "false"}[err == nil]).Observe(
			float64(took.Milliseconds()))
	}
}

func priorityBucket(p *v1.Pod) string {
	if p.Spec.Priority == nil || *p.Spec.Priority == 0 {
		return "normal"
	}
	switch n := *p.Spec.Priority; {
	case n >= 2_000_000_000:
		return "system-critical"
	case n >= 100_000:
		return "high"
	case n > 0:
		return "medium"
	case n > -1000:
		return "low"
	}
	return "very-low"
}

// waitingResizes sends the resizes that wait or are under way.
func waitingResizes(pods []*v1.Pod, gauge func(*prometheus.Desc, float64, ...string)) {
	running, pending := 0.0, map[[2]string]float64{}
	for _, p := range pods {
		for _, c := range p.Status.Conditions {
			switch {
			case c.Status != v1.ConditionTrue:
			case c.Type == v1.PodResizeInProgress:
				running++
			case c.Type == v1.PodResizePending:
				pending[[2]string{strings.ToLower(c.Reason), priorityBucket(p)}]++
			}
		}
	}
	gauge(desc("kubelet_pod_in_progress_resizes", "[ALPHA] Number of in-progress resizes for pods."), running)
	d := desc("kubelet_pod_pending_resizes", "[ALPHA] Number of pending resizes for pods. "+priorityBuckets+
		"Label 'reason' describes the state (deferred, infeasible).", "reason", "priority_bucket")
	for of, n := range pending {
		gauge(d, n, of[0], of[1])
	}
}
