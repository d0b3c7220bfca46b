package scheduler

import (
	"time"

	"k8s.io/component-base/metrics"

	"github.com/gantry-project/gantry/internal/scheduler/queue"
)

// podGroupMetrics counts what is scheduled as one: Pods that stand alone, and PodGroups. Those of
// attempts exist with the gate GenericWorkload only, as upstream's.
type podGroupMetrics struct {
	queued    *gaugeVec
	incoming  *counterVec
	attempts  *counterVec
	durations *histogramVec
	algorithm *metrics.Histogram
}

// Types of entities, as upstream's labels.
const (
	typePod   = "pod"
	typeGroup = "podgroup"
)

func newPodGroupMetrics(r metrics.KubeRegistry, workloads bool) podGroupMetrics {
	g := podGroupMetrics{
		queued: gauge("queued_entities",
			"Pods that stand alone ('pod') and PodGroups ('podgroup') by queue: active, backoff, unschedulable, gated.",
			metrics.ALPHA, "queue", "type"),
		incoming: alphaCounter("queue_incoming_entities_total",
			"Pods that stand alone and PodGroups added to scheduling queues by event and queue.", "queue", "event",
			"type"),
		attempts: alphaCounter("podgroup_schedule_attempts_total",
			"Attempts to schedule PodGroups by result: scheduled, unschedulable, error.", "result", "profile"),
		durations: histogram("podgroup_scheduling_attempt_duration_seconds",
			"Duration of an attempt to schedule a PodGroup.", attemptBuckets(), "result", "profile"),
		algorithm: metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: subsystem,
			Name: "podgroup_scheduling_algorithm_duration_seconds", Help: "Duration of finding nodes for a PodGroup.",
			Buckets: attemptBuckets(), StabilityLevel: metrics.ALPHA}),
	}
	r.MustRegister(g.queued, g.incoming)
	if workloads {
		r.MustRegister(g.attempts, g.durations, g.algorithm)
	}
	return g
}

// attemptBuckets are upstream's, 1 ms doubling to 16 s, and finer ones below.
func attemptBuckets() []float64 {
	return append([]float64{0.0001, 0.0002, 0.0005}, metrics.ExponentialBuckets(0.001, 2, 15)...)
}

// setEntities sets how many stand where.
func (m *schedulerMetrics) setEntities(now map[queue.Stage]queue.EntityCounts) {
	for _, at := range []queue.Stage{queue.Active, queue.Backoff, queue.Unschedulable, queue.Gated} {
		m.podGroups.queued.WithLabelValues(string(at), typePod).Set(float64(now[at].Pods))
		m.podGroups.queued.WithLabelValues(string(at), typeGroup).Set(float64(now[at].Groups))
	}
}

// observeIncoming counts entities that came to be tried, or to be kept out by a gate, as upstream
// does; not those that go to wait. Members of a group that move together count once.
func (m *schedulerMetrics) observeIncoming(moves []queue.Move, of func(queue.Move) string) {
	var seen map[[4]string]bool
	for _, v := range moves {
		if v.Ignored || v.Stage != queue.Active && v.Stage != queue.Gated {
			continue
		}
		name := of(v)
		if name == "" {
			m.podGroups.incoming.WithLabelValues(queueLabel(v), eventLabel(v), typePod).Inc()
			continue
		}
		key := [4]string{v.Entry.Pod().Namespace, name, string(v.Stage), v.Cause}
		if seen[key] {
			continue
		}
		if seen == nil {
			seen = map[[4]string]bool{}
		}
		seen[key] = true
		m.podGroups.incoming.WithLabelValues(queueLabel(v), eventLabel(v), typeGroup).Inc()
	}
}

// observePodGroup is called when a PodGroup has been tried.
func (m *schedulerMetrics) observePodGroup(g *podGroupAttempt, began time.Time) {
	result := "scheduled"
	switch {
	case g.status.IsSuccess():
	case g.status.IsRejected():
		result = "unschedulable"
	default:
		result = "error"
	}
	profile := g.members[0].profile.Name
	m.podGroups.attempts.WithLabelValues(result, profile).Inc()
	m.podGroups.durations.WithLabelValues(result, profile).Observe(time.Since(began).Seconds())
}
