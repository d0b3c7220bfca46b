package scheduler

import (
	"time"

	"k8s.io/component-base/metrics"

	"github.com/gantry-project/gantry/internal/scheduler/queue"
)

// groupMeter counts what is scheduled as one: Pods that stand alone, and PodGroups. Those of attempts exist with the gate GenericWorkload only, as upstream's.
type groupMeter struct {
	queued   *gauges
	incoming *counters
	attempts *counters
	took     *histograms
	judged   *metrics.Histogram
}

// Types of entities, as upstream's labels.
const (
	typePod   = "pod"
	typeGroup = "podgroup"
)

func newGroupMeter(r metrics.KubeRegistry, workloads bool) groupMeter {
	g := groupMeter{
		queued:   gauge("queued_entities", "Pods that stand alone ('pod') and PodGroups ('podgroup') by queue: active, backoff, unschedulable, gated.", metrics.ALPHA, "queue", "type"),
		incoming: alphaCounter("queue_incoming_entities_total", "Pods that stand alone and PodGroups added to scheduling queues by event and queue.", "queue", "event", "type"),
		attempts: alphaCounter("podgroup_schedule_attempts_total", "Attempts to schedule PodGroups by result: scheduled, unschedulable, error.", "result", "profile"),
		took:     histogram("podgroup_scheduling_attempt_duration_seconds", "Duration of an attempt to schedule a PodGroup.", attemptBuckets(), "result", "profile"),
		judged:   metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: subsystem, Name: "podgroup_scheduling_algorithm_duration_seconds", Help: "Duration of finding nodes for a PodGroup.", Buckets: attemptBuckets(), StabilityLevel: metrics.ALPHA}),
	}
	r.MustRegister(g.queued, g.incoming)
	if workloads {
		r.MustRegister(g.attempts, g.took, g.judged)
	}
	return g
}

// attemptBuckets are upstream's, 1 ms doubling to 16 s, and finer ones below.
func attemptBuckets() []float64 {
	return append([]float64{0.0001, 0.0002, 0.0005}, metrics.ExponentialBuckets(0.001, 2, 15)...)
}

// entities sets how many stand where.
func (m *meter) entities(now map[queue.Place]queue.Entities) {
	for _, at := range []queue.Place{queue.Active, queue.Backoff, queue.Unschedulable, queue.Gated} {
		m.group.queued.WithLabelValues(string(at), typePod).Set(float64(now[at].Pods))
		m.group.queued.WithLabelValues(string(at), typeGroup).Set(float64(now[at].Groups))
	}
}

// came counts entities that came to be tried, or to be kept out by a gate, as upstream does; not those that go to wait. Members of a group that move together count once.
func (m *meter) came(moves []queue.Move, of func(queue.Move) string) {
	var seen map[[4]string]bool
	for _, v := range moves {
		if v.Ignored || v.To != queue.Active && v.To != queue.Gated {
			continue
		}
		name := of(v)
		if name == "" {
			m.group.incoming.WithLabelValues(queueLabel(v), eventLabel(v), typePod).Inc()
			continue
		}
		key := [4]string{v.Entry.Pod().Namespace, name, string(v.To), v.Cause}
		if seen[key] {
			continue
		}
		if seen == nil {
			seen = map[[4]string]bool{}
		}
		seen[key] = true
		m.group.incoming.WithLabelValues(queueLabel(v), eventLabel(v), typeGroup).Inc()
	}
}

// gang is called when a PodGroup has been tried.
func (m *meter) gang(g *ensemble, began time.Time) {
	result := "scheduled"
	switch {
	case g.status.IsSuccess():
	case g.status.IsRejected():
		result = "unschedulable"
	default:
		result = "error"
	}
	profile := g.members[0].profile.Name
	m.group.attempts.WithLabelValues(result, profile).Inc()
	m.group.took.WithLabelValues(result, profile).Observe(time.Since(began).Seconds())
}
