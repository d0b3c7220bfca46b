package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// nodeWork measures the node's own start and end.
type nodeWork struct {
	startup                    map[string]prometheus.Gauge // by upstream's word for the span
	shutdownStart, shutdownEnd prometheus.Gauge
}

func newNodeWork(k factory) nodeWork {
	w := nodeWork{startup: map[string]prometheus.Gauge{}}
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
