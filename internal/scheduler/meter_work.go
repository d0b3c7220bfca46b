package scheduler

import (
	"slices"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/glue"
	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
)

// measuredEvery is how often plugins are timed one by one: in every tenth cycle, as upstream does at random.
const measuredEvery = 10

// workMeter counts what goes on beside the rulings.
type workMeter struct {
	goroutines *gauges
	events     *histograms
	labels     map[framework.ClusterEvent]string // of events
	inflight   *gauges
	flushed    *metrics.Counter
	hints      *histograms
	hunts      huntMeter
	calls      callMeter
}

func newWorkMeter(r metrics.KubeRegistry, workloads bool) workMeter {
	w := workMeter{
		labels:     map[framework.ClusterEvent]string{},
		goroutines: gauge("goroutines", "Running goroutines by the work they do: binding, preemption.", metrics.BETA, "operation"),
		events:     histogram("event_handling_duration_seconds", "Time to take in a change of an object, waking Pods included.", metrics.ExponentialBuckets(0.0001, 2, 12), "event"),
		inflight:   gauge("inflight_events", "Events kept for Pods that are being scheduled, by kind; PodPopped are those Pods.", metrics.ALPHA, "event"),
		flushed:    metrics.NewCounter(&metrics.CounterOpts{Subsystem: subsystem, Name: "pod_scheduled_after_flush_total", Help: "Pods scheduled after the flush of the unschedulable ones, not an event, had woken them: an event that should have is missing.", StabilityLevel: metrics.ALPHA}),
		hints:      histogram("queueing_hint_execution_duration_seconds", "Duration of a plugin's judgement whether an event helps a Pod.", metrics.ExponentialBuckets(0.00001, 1.5, 20), "plugin", "event", "hint"),
	}
	r.MustRegister(w.goroutines, w.events, w.inflight, w.flushed, w.hints)
	w.hunts, w.calls = newHuntMeter(r, workloads), newCallMeter(r)
	return w
}

func (m *meter) goroutine(operation string, n float64) {
	m.work.goroutines.WithLabelValues(operation).Add(n)
}

// handled is called when a change of an object has been taken in. Calls do not overlap.
func (m *meter) handled(e framework.ClusterEvent, began time.Time) {
	m.work.events.WithLabelValues(m.label(e)).Observe(time.Since(began).Seconds())
}

// label is an event's, made once; the scheduler's lock is held.
func (m *meter) label(e framework.ClusterEvent) string {
	label, known := m.work.labels[e]
	if !known {
		label = e.Label()
		m.work.labels[e] = label
	}
	return label
}

// noted sets how many events are kept for Pods in flight.
func (m *meter) noted(now map[string]int) {
	for event, n := range now {
		m.work.inflight.WithLabelValues(event).Set(float64(n))
	}
	for event := range m.last.noted {
		if _, still := now[event]; !still {
			m.work.inflight.WithLabelValues(event).Set(0)
		}
	}
	m.last.noted = now
}

// timed measures how long plugins take to judge whether an event helps; asked tells which.
func (m *meter) timed(hints []queue.Hint, asked func() framework.ClusterEvent) []queue.Hint {
	out := slices.Clone(hints)
	for i, h := range out {
		if h.Fn == nil {
			continue
		}
		out[i].Fn = func(log logr.Logger, p *v1.Pod, before, after any) (framework.QueueingHint, error) {
			began := time.Now()
			hint, err := h.Fn(log, p, before, after)
			m.work.hints.WithLabelValues(h.Plugin, m.label(asked()), hint.String()).Observe(time.Since(began).Seconds())
			return hint, err
		}
	}
	return out
}

// span is called when a point, or a plugin at a point, was asked about a Pod, or when a Pod's wait at Permit ended.
func (m *meter) span(s glue.Span) {
	switch {
	case s.Wait:
		m.took.permit.WithLabelValues(s.Code.String()).Observe(s.Took.Seconds())
	case s.Plugin != "":
		m.took.plugin.WithLabelValues(s.Plugin, s.Point, s.Code.String()).Observe(s.Took.Seconds())
	default:
		m.points.WithLabelValues(s.Point, s.Code.String(), s.Profile).Observe(s.Took.Seconds())
	}
}

// clock times plugins one by one while they judge nodes, for the cycles that are measured. A plugin that judges many nodes at once, from columns, is timed once for all.
func (m *meter) clock() place.Clock {
	return func(plugin, point string) func(*framework.Status) {
		began := time.Now()
		return func(s *framework.Status) {
			m.took.plugin.WithLabelValues(plugin, point, s.Code().String()).Observe(time.Since(began).Seconds())
		}
	}
}

// measured tells whether plugins are timed one by one in the next cycle.
func (s *Scheduler) measured() bool {
	s.cycles++
	return s.cycles%measuredEvery == 0
}
