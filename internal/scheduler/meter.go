package scheduler

import (
	"strconv"
	"time"

	"k8s.io/component-base/metrics"

	"github.com/gantry-project/gantry/internal/scheduler/queue"
)

// meter counts under upstream's metric names. Without a registry it counts for nobody.
type meter struct {
	waiting   *metrics.GaugeVec
	incoming  *metrics.CounterVec
	attempts  *metrics.CounterVec
	latency   *metrics.HistogramVec
	sli       *metrics.HistogramVec
	points    *metrics.HistogramVec
	victims   *metrics.Histogram
	preempts  *metrics.Counter
	lastCount queue.Count
}

const subsystem = "scheduler"

func newMeter(r metrics.KubeRegistry) *meter {
	if r == nil {
		r = metrics.NewKubeRegistry()
	}
	stable := metrics.STABLE
	m := &meter{
		waiting:  metrics.NewGaugeVec(&metrics.GaugeOpts{Subsystem: subsystem, Name: "pending_pods", Help: "Pending Pods by queue: active, backoff, unschedulable, gated.", StabilityLevel: stable}, []string{"queue"}),
		incoming: metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem, Name: "queue_incoming_pods_total", Help: "Pods added to scheduling queues by event and queue.", StabilityLevel: stable}, []string{"queue", "event"}),
		attempts: metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem, Name: "schedule_attempts_total", Help: "Attempts to schedule Pods by result: scheduled, unschedulable, error.", StabilityLevel: stable}, []string{"result", "profile"}),
		latency:  metrics.NewHistogramVec(&metrics.HistogramOpts{Subsystem: subsystem, Name: "scheduling_attempt_duration_seconds", Help: "Duration of an attempt: scheduling and binding.", Buckets: metrics.ExponentialBuckets(0.0001, 2, 18), StabilityLevel: stable}, []string{"result", "profile"}),
		sli:      metrics.NewHistogramVec(&metrics.HistogramOpts{Subsystem: subsystem, Name: "pod_scheduling_sli_duration_seconds", Help: "Time from a Pod's first entry into the queue to its binding.", Buckets: metrics.ExponentialBuckets(0.01, 2, 20), StabilityLevel: metrics.BETA}, []string{"attempts"}),
		points:   metrics.NewHistogramVec(&metrics.HistogramOpts{Subsystem: subsystem, Name: "framework_extension_point_duration_seconds", Help: "Duration of all plugins of an extension point.", Buckets: metrics.ExponentialBuckets(0.0001, 2, 12), StabilityLevel: stable}, []string{"extension_point", "profile"}),
		victims:  metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: subsystem, Name: "preemption_victims", Help: "Number of victims of a preemption.", Buckets: metrics.ExponentialBuckets(1, 2, 7), StabilityLevel: stable}),
		preempts: metrics.NewCounter(&metrics.CounterOpts{Subsystem: subsystem, Name: "preemption_attempts_total", Help: "Preemptions in the cluster.", StabilityLevel: stable}),
	}
	r.MustRegister(m.waiting, m.incoming, m.attempts, m.latency, m.sli, m.points, m.victims, m.preempts)
	return m
}

func (m *meter) pending(c queue.Count) {
	if c == m.lastCount {
		return
	}
	m.lastCount = c
	for place, n := range map[queue.Place]int{queue.Active: c.Active, queue.Backoff: c.Backoff, queue.Unschedulable: c.Unschedulable, queue.Gated: c.Gated} {
		m.waiting.WithLabelValues(string(place)).Set(float64(n))
	}
}

func (m *meter) moved(v queue.Move) { m.incoming.WithLabelValues(string(v.To), v.Cause).Inc() }

func (m *meter) attempt(a *attempt, result string) {
	m.attempts.WithLabelValues(result, a.profile.Name).Inc()
	m.latency.WithLabelValues(result, a.profile.Name).Observe(time.Since(a.began).Seconds())
	for point, took := range a.points {
		m.points.WithLabelValues(point, a.profile.Name).Observe(time.Duration(took).Seconds())
	}
}

func (m *meter) placed(a *attempt) {
	m.sli.WithLabelValues(strconv.Itoa(min(a.Attempts, 16))).Observe(time.Since(a.Arrived).Seconds())
}

func (m *meter) preempted(victims int) {
	m.preempts.Inc()
	m.victims.Observe(float64(victims))
}
