package stats

import (
	"time"

	dto "github.com/prometheus/client_model/go"
)

// resourceRow is one metric of /metrics/resource; the functions say it of the node, a Pod or a
// container, ok is false where it is not known.
type resourceRow struct {
	name, help string
	kind       dto.MetricType
	node       func(*Node) float64
	pod        func(*Pod) (float64, bool)
	container  func(*Container) (float64, bool)
	untimed    bool
}

// valueOf reads a number of what was measured.
func valueOf(m CgroupUsage, f func(CgroupUsage) float64) (float64, bool) {
	if m.Use == nil {
		return 0, false
	}
	return f(m), true
}

func cpuSeconds(m CgroupUsage) float64 { return seconds(m.Use.CPU.Nanos) }
func workingSet(m CgroupUsage) float64 { return float64(m.Use.Memory.WorkingSet) }
func swapBytes(m CgroupUsage) float64  { return float64(m.Use.Memory.Swap) }

// resourceRows is all of /metrics/resource, with upstream's names and texts; metrics-server reads
// it.
func resourceRows() []resourceRow {
	ofPod := func(f func(CgroupUsage) float64) func(*Pod) (float64, bool) {
		return func(p *Pod) (float64, bool) { return valueOf(p.Measured, f) }
	}
	ofContainer := func(f func(CgroupUsage) float64) func(*Container) (float64, bool) {
		return func(c *Container) (float64, bool) { return valueOf(c.Measured, f) }
	}
	return []resourceRow{
		{name: "container_cpu_usage_seconds_total",
			help: "[STABLE] Cumulative cpu time consumed by the container in core-seconds", kind: counter,
			container: ofContainer(cpuSeconds)},
		{name: "container_memory_working_set_bytes", help: "[STABLE] Current working set of the container in bytes",
			kind: gauge, container: ofContainer(workingSet)},
		{name: "container_start_time_seconds", help: "[STABLE] Start time of the container since unix epoch in seconds",
			kind: gauge, untimed: true,
			container: func(c *Container) (float64, bool) { return unix(c.Created), c.Created.Unix() > 0 }},
		{name: "container_swap_limit_bytes",
			help: "[ALPHA] Current amount of the container swap limit in bytes. Reported only on non-windows systems",
			kind: gauge,
			container: func(c *Container) (float64, bool) {
				if c.Measured.Use == nil || !c.Measured.Use.Limits.HasSwap {
					return 0, false
				}
				return float64(c.Measured.Use.Limits.Swap), true
			}},
		{name: "container_swap_usage_bytes",
			help: "[ALPHA] Current amount of the container swap usage in bytes. Reported only on non-windows systems",
			kind: gauge, container: ofContainer(swapBytes)},
		{name: "node_cpu_usage_seconds_total",
			help: "[STABLE] Cumulative cpu time consumed by the node in core-seconds", kind: counter,
			node: func(n *Node) float64 { return seconds(n.CPUNanos) }},
		{name: "node_memory_working_set_bytes", help: "[STABLE] Current working set of the node in bytes", kind: gauge,
			node: func(n *Node) float64 { return float64(n.WorkingSet) }},
		{name: "node_swap_usage_bytes",
			help: "[ALPHA] Current swap usage of the node in bytes. Reported only on non-windows systems", kind: gauge,
			node: func(n *Node) float64 { return float64(n.Swap) }},
		{name: "pod_cpu_usage_seconds_total", help: "[STABLE] Cumulative cpu time consumed by the pod in core-seconds",
			kind: counter, pod: ofPod(cpuSeconds)},
		{name: "pod_memory_working_set_bytes", help: "[STABLE] Current working set of the pod in bytes", kind: gauge,
			pod: ofPod(workingSet)},
		{name: "pod_swap_usage_bytes",
			help: "[ALPHA] Current amount of the pod swap usage in bytes. Reported only on non-windows systems",
			kind: gauge, pod: ofPod(swapBytes)},
	}
}

// Resource is /metrics/resource. A nil snapshot says that measuring failed.
func Resource(s *Snapshot) []*dto.MetricFamily {
	failed := 1.0
	var out []*dto.MetricFamily
	if s != nil {
		failed = 0
		for _, r := range resourceRows() {
			out = append(out, family(r.name, r.help, r.kind, r.points(s)))
		}
	}
	one := []point{{value: failed}}
	return append(out,
		family("resource_scrape_error", "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise",
			gauge, one),
		family("scrape_error",
			"[ALPHA] (Deprecated since 1.29.0) 1 if there was an error while getting container metrics, 0 otherwise",
			gauge, one))
}

func (r resourceRow) points(s *Snapshot) []point {
	var out []point
	add := func(l labels, v float64, at time.Time) {
		if r.untimed {
			at = time.Time{}
		}
		out = append(out, point{l, v, at})
	}
	if r.node != nil {
		add(nil, r.node(&s.Node), s.Node.At)
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		if r.pod != nil {
			if v, ok := r.pod(p); ok {
				add(labels{"namespace", p.Namespace, "pod", p.Name}, v, p.Measured.Use.At)
			}
		}
		for j := range p.Containers {
			c := &p.Containers[j]
			if r.container == nil {
				break
			}
			if v, ok := r.container(c); ok {
				at := time.Time{}
				if c.Measured.Use != nil {
					at = c.Measured.Use.At
				}
				add(labels{"container", c.Name, "namespace", p.Namespace, "pod", p.Name}, v, at)
			}
		}
	}
	return out
}
