package metrics

import (
	"strconv"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// Results of attempts, as upstream's labels.
const (
	Scheduled     = "scheduled"
	Unschedulable = "unschedulable"
	Error         = "error"
)

// Attempt is an attempt to schedule a Pod that ended.
type Attempt struct {
	Profile string
	Result  string // Scheduled, Unschedulable, Error
	Start   time.Time
	// time spent at each extension point that the scheduling cycle times
	PointDurations map[string]journal.Took
	FailedPoint    string // the point where the attempt ended without success; empty: none
	FailedCode     framework.Code
	PostFilterCode framework.Code // what PostFilter came to
}

// Attempts counts and times attempts to schedule single Pods. Any goroutine may call it.
type Attempts struct {
	total       *counterVec
	duration    *histogramVec
	algorithm   *metrics.Histogram
	sli         *histogramVec
	pods        *metrics.Histogram
	flushedPods *metrics.Counter
	points      *ExtensionPoints
}

func newAttempts(r metrics.KubeRegistry, points *ExtensionPoints) *Attempts {
	m := &Attempts{
		points: points,
		total: counter("schedule_attempts_total",
			"Attempts to schedule Pods by result: scheduled, unschedulable, error.", metrics.STABLE, "result",
			"profile"),
		duration: histogramOf(&metrics.HistogramOpts{Name: "scheduling_attempt_duration_seconds",
			Help: "Duration of an attempt: scheduling and binding.", Buckets: attemptBuckets(),
			StabilityLevel: metrics.STABLE}, "result", "profile"),
		algorithm: metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: Subsystem,
			Name: "scheduling_algorithm_duration_seconds", Help: "Duration of finding a node.",
			Buckets: attemptBuckets(), StabilityLevel: metrics.BETA}),
		sli: histogramOf(&metrics.HistogramOpts{Name: "pod_scheduling_sli_duration_seconds",
			Help:    "Time from a Pod's first entry into the queue, gates aside, to its binding.",
			Buckets: metrics.ExponentialBuckets(0.01, 2, 20), StabilityLevel: metrics.BETA}, "attempts"),
		pods: metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: Subsystem, Name: "pod_scheduling_attempts",
			Help: "Attempts until a Pod was scheduled.", Buckets: metrics.ExponentialBuckets(1, 2, 5),
			StabilityLevel: metrics.STABLE}),
		flushedPods: metrics.NewCounter(&metrics.CounterOpts{Subsystem: Subsystem,
			Name: "pod_scheduled_after_flush_total",
			Help: "Pods scheduled after the flush of the unschedulable ones, not an event, had woken them: an event " +
				"that should have is missing.", StabilityLevel: metrics.ALPHA}),
	}
	r.MustRegister(m.total, m.duration, m.algorithm, m.sli, m.pods, m.flushedPods)
	return m
}

// Observe counts an attempt that ended now.
func (m *Attempts) Observe(a Attempt) {
	m.total.WithLabelValues(a.Result, a.Profile).Inc()
	m.duration.WithLabelValues(a.Result, a.Profile).Observe(time.Since(a.Start).Seconds())
	for point, took := range a.PointDurations {
		status := "Success"
		switch {
		case point == "PostFilter":
			status = a.PostFilterCode.String()
		case point == a.FailedPoint && (point != "Filter" || a.FailedCode == framework.Error):
			// that no node fits is no failure of filtering
			status = a.FailedCode.String()
		}
		m.points.all.WithLabelValues(point, status, a.Profile).Observe(time.Duration(took).Seconds())
	}
}

// ObserveAlgorithm counts how long finding a node took, or finding that there is none.
func (m *Attempts) ObserveAlgorithm(took time.Duration) { m.algorithm.Observe(took.Seconds()) }

// ObserveScheduled counts a Pod that is bound, after so many attempts. addedAt is when it came into
// the queue for the first time; flushed tells that the passing of time, not an event, had moved it
// back to the active queue.
func (m *Attempts) ObserveScheduled(attempts int, addedAt time.Time, flushed bool) {
	label := "15+" // upstream's label for all beyond
	if attempts < 15 {
		label = strconv.Itoa(attempts)
	}
	m.sli.WithLabelValues(label).Observe(time.Since(addedAt).Seconds())
	m.pods.Observe(float64(attempts))
	if flushed {
		m.flushedPods.Inc()
	}
}

// ExtensionPoints times extension points, and plugins one by one in the cycles that are measured.
// Any goroutine may call it.
type ExtensionPoints struct {
	all    *histogramVec
	plugin *histogramVec
	permit *histogramVec
}

func newExtensionPoints(r metrics.KubeRegistry) *ExtensionPoints {
	m := &ExtensionPoints{
		all: histogramOf(&metrics.HistogramOpts{Name: "framework_extension_point_duration_seconds",
			Help: "Duration of all plugins of an extension point.", Buckets: metrics.ExponentialBuckets(0.0001, 2, 12),
			StabilityLevel: metrics.STABLE}, "extension_point", "status", "profile"),
		plugin: histogramOf(&metrics.HistogramOpts{Name: "plugin_execution_duration_seconds",
			Help: "Duration of a plugin at an extension point, in one cycle of ten. At Filter and Score it is that " +
				"of one node, or of all nodes judged at once from columns.",
			Buckets: metrics.ExponentialBuckets(0.00001, 1.5, 20), StabilityLevel: metrics.BETA}, "plugin",
			"extension_point", "status"),
		permit: histogramOf(&metrics.HistogramOpts{Name: "permit_wait_duration_seconds",
			Help: "Time Pods waited on Permit.", Buckets: metrics.ExponentialBuckets(0.001, 2, 15),
			StabilityLevel: metrics.BETA}, "result"),
	}
	r.MustRegister(m.all, m.plugin, m.permit)
	return m
}

// ObservePoint counts that an extension point, or one plugin at it, was run for a Pod, or that a
// Pod's wait on Permit ended.
func (m *ExtensionPoints) ObservePoint(s frameworkruntime.PointDuration) {
	switch {
	case s.PermitWait:
		m.permit.WithLabelValues(s.Code.String()).Observe(s.Took.Seconds())
	case s.Plugin != "":
		m.plugin.WithLabelValues(s.Plugin, s.Point, s.Code.String()).Observe(s.Took.Seconds())
	default:
		m.all.WithLabelValues(s.Point, s.Code.String(), s.Profile).Observe(s.Took.Seconds())
	}
}

// PluginTimer times plugins one by one at Filter and Score. A plugin that answers for many nodes at
// once, from columns, is timed once for all.
func (m *ExtensionPoints) PluginTimer() schedule.PluginTimer {
	return func(plugin, point string) func(*framework.Status) {
		began := time.Now()
		return func(s *framework.Status) {
			m.plugin.WithLabelValues(plugin, point, s.Code().String()).Observe(time.Since(began).Seconds())
		}
	}
}

// PodGroups counts and times attempts to schedule PodGroups.
type PodGroups struct {
	attempts  *counterVec
	durations *histogramVec
	algorithm *metrics.Histogram
}

func newPodGroups(r metrics.KubeRegistry, genericWorkload bool) *PodGroups {
	g := &PodGroups{
		attempts: counter("podgroup_schedule_attempts_total",
			"Attempts to schedule PodGroups by result: scheduled, unschedulable, error.", metrics.ALPHA, "result",
			"profile"),
		durations: histogram("podgroup_scheduling_attempt_duration_seconds",
			"Duration of an attempt to schedule a PodGroup.", attemptBuckets(), "result", "profile"),
		algorithm: metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: Subsystem,
			Name: "podgroup_scheduling_algorithm_duration_seconds", Help: "Duration of finding nodes for a PodGroup.",
			Buckets: attemptBuckets(), StabilityLevel: metrics.ALPHA}),
	}
	if genericWorkload {
		r.MustRegister(g.attempts, g.durations, g.algorithm)
	}
	return g
}

// ObserveAlgorithm counts how long finding nodes for a PodGroup took, since began.
func (m *PodGroups) ObserveAlgorithm(began time.Time) {
	m.algorithm.Observe(time.Since(began).Seconds())
}

// Observe counts an attempt that ended now with a status.
func (m *PodGroups) Observe(profile string, status *framework.Status, began time.Time) {
	result := ResultOf(status)
	m.attempts.WithLabelValues(result, profile).Inc()
	m.durations.WithLabelValues(result, profile).Observe(time.Since(began).Seconds())
}

// ResultOf is the result of an attempt that ended with a status.
func ResultOf(status *framework.Status) string {
	switch {
	case status.IsSuccess():
		return Scheduled
	case status.IsRejected():
		return Unschedulable
	}
	return Error
}
