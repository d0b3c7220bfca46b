package metrics

import (
	"slices"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/queue"
)

// Events times how cluster events are handled, and the queueing hints of plugins. Calls must not
// overlap: the scheduler's lock is held.
type Events struct {
	handling *histogramVec
	hints    *histogramVec
	labels   map[framework.ClusterEvent]string // made once
}

func newEvents(r metrics.KubeRegistry) *Events {
	e := &Events{
		labels: map[framework.ClusterEvent]string{},
		handling: histogram("event_handling_duration_seconds",
			"Time to take in a change of an object, waking Pods included.", metrics.ExponentialBuckets(0.0001, 2, 12),
			"event"),
		hints: histogram("queueing_hint_execution_duration_seconds",
			"Duration of a plugin's judgement whether an event helps a Pod.",
			metrics.ExponentialBuckets(0.00001, 1.5, 20), "plugin", "event", "hint"),
	}
	r.MustRegister(e.handling, e.hints)
	return e
}

// Observe counts an event that has been handled since began.
func (m *Events) Observe(e framework.ClusterEvent, began time.Time) {
	m.handling.WithLabelValues(m.labelOf(e)).Observe(time.Since(began).Seconds())
}

func (m *Events) labelOf(e framework.ClusterEvent) string {
	label, known := m.labels[e]
	if !known {
		label = e.Label()
		m.labels[e] = label
	}
	return label
}

// TimeHints are the hints, timed; eventInHand is the event that a hint is asked about.
func (m *Events) TimeHints(hints []queue.QueueingHint,
	eventInHand func() framework.ClusterEvent) []queue.QueueingHint {
	out := slices.Clone(hints)
	for i, h := range out {
		if h.Fn == nil {
			continue
		}
		out[i].Fn = func(log logr.Logger, p *v1.Pod, before, after any) (framework.QueueingHint, error) {
			began := time.Now()
			hint, err := h.Fn(log, p, before, after)
			m.hints.WithLabelValues(h.Plugin, m.labelOf(eventInHand()),
				hint.String()).Observe(time.Since(began).Seconds())
			return hint, err
		}
	}
	return out
}
