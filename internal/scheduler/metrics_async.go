package scheduler

import (
	"slices"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// recordPluginMetricsEvery is how often plugins are timed one by one: in every tenth cycle, as
// upstream does at random.
const recordPluginMetricsEvery = 10

// asyncMetrics counts what goes on beside the rulings.
type asyncMetrics struct {
	goroutines  *gaugeVec
	events      *histogramVec
	labels      map[framework.ClusterEvent]string // of events
	inflight    *gaugeVec
	flushedPods *metrics.Counter
	hints       *histogramVec
	preemption  preemptionMetrics
	apiCalls    apiCallMetrics
}

func newAsyncMetrics(r metrics.KubeRegistry, workloads bool) asyncMetrics {
	w := asyncMetrics{
		labels: map[framework.ClusterEvent]string{},
		goroutines: gauge("goroutines", "Running goroutines by the work they do: binding, preemption.", metrics.BETA,
			"operation"),
		events: histogram("event_handling_duration_seconds",
			"Time to take in a change of an object, waking Pods included.", metrics.ExponentialBuckets(0.0001, 2, 12),
			"event"),
		inflight: gauge("inflight_events",
			"Events kept for Pods that are being scheduled, by kind; PodPopped are those Pods.", metrics.ALPHA,
			"event"),
		flushedPods: metrics.NewCounter(&metrics.CounterOpts{Subsystem: subsystem,
			Name: "pod_scheduled_after_flush_total",
			Help: "Pods scheduled after the flush of the unschedulable ones, not an event, had woken them: an event " +
				"that should have is missing.", StabilityLevel: metrics.ALPHA}),
		hints: histogram("queueing_hint_execution_duration_seconds",
			"Duration of a plugin's judgement whether an event helps a Pod.",
			metrics.ExponentialBuckets(0.00001, 1.5, 20), "plugin", "event", "hint"),
	}
	r.MustRegister(w.goroutines, w.events, w.inflight, w.flushedPods, w.hints)
	w.preemption, w.apiCalls = newPreemptionMetrics(r, workloads), newAPICallMetrics(r)
	return w
}

func (m *schedulerMetrics) addGoroutines(operation string, n float64) {
	m.async.goroutines.WithLabelValues(operation).Add(n)
}

// observeEvent is called when a change of an object has been taken in. Calls do not overlap.
func (m *schedulerMetrics) observeEvent(e framework.ClusterEvent, began time.Time) {
	m.async.events.WithLabelValues(m.eventLabelOf(e)).Observe(time.Since(began).Seconds())
}

// eventLabelOf is an event's, made once; the scheduler's lock is held.
func (m *schedulerMetrics) eventLabelOf(e framework.ClusterEvent) string {
	label, known := m.async.labels[e]
	if !known {
		label = e.Label()
		m.async.labels[e] = label
	}
	return label
}

// setInFlightEvents sets how many events are kept for Pods in flight.
func (m *schedulerMetrics) setInFlightEvents(now map[string]int) {
	for event, n := range now {
		m.async.inflight.WithLabelValues(event).Set(float64(n))
	}
	for event := range m.last.noted {
		if _, still := now[event]; !still {
			m.async.inflight.WithLabelValues(event).Set(0)
		}
	}
	m.last.noted = now
}

// timeHints measures how long plugins take to judge whether an event helps; asked tells which.
func (m *schedulerMetrics) timeHints(hints []queue.QueueingHint,
	asked func() framework.ClusterEvent) []queue.QueueingHint {
	out := slices.Clone(hints)
	for i, h := range out {
		if h.Fn == nil {
			continue
		}
		out[i].Fn = func(log logr.Logger, p *v1.Pod, before, after any) (framework.QueueingHint, error) {
			began := time.Now()
			hint, err := h.Fn(log, p, before, after)
			m.async.hints.WithLabelValues(h.Plugin, m.eventLabelOf(asked()),
				hint.String()).Observe(time.Since(began).Seconds())
			return hint, err
		}
	}
	return out
}

// observePoint is called when a point, or a plugin at a point, was asked about a Pod, or when a
// Pod's wait at Permit ended.
func (m *schedulerMetrics) observePoint(s frameworkruntime.PointDuration) {
	switch {
	case s.PermitWait:
		m.durations.permit.WithLabelValues(s.Code.String()).Observe(s.Took.Seconds())
	case s.Plugin != "":
		m.durations.plugin.WithLabelValues(s.Plugin, s.Point, s.Code.String()).Observe(s.Took.Seconds())
	default:
		m.points.WithLabelValues(s.Point, s.Code.String(), s.Profile).Observe(s.Took.Seconds())
	}
}

// pluginTimer times plugins one by one while they judge nodes, for the cycles that are measured. A
// plugin that judges many nodes at once, from columns, is timed once for all.
func (m *schedulerMetrics) pluginTimer() schedule.PluginTimer {
	return func(plugin, point string) func(*framework.Status) {
		began := time.Now()
		return func(s *framework.Status) {
			m.durations.plugin.WithLabelValues(plugin, point, s.Code().String()).Observe(time.Since(began).Seconds())
		}
	}
}

// recordsPluginMetrics tells whether plugins are timed one by one in the next cycle.
func (s *Scheduler) recordsPluginMetrics() bool {
	s.cycleCount++
	return s.cycleCount%recordPluginMetricsEvery == 0
}
