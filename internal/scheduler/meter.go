package scheduler

import (
	"strconv"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
)

// meter counts under upstream's metric names. Without a registry it counts for nobody.
type meter struct {
	waiting  *gauges
	incoming *counters
	attempts *counters
	points   *histograms
	took     durations
	cluster  clusterMeter
	work     workMeter
	asked    askedMeter
	group    groupMeter
	last     struct {
		count queue.Count
		cache [3]int
		noted map[string]int

		refusals map[queue.Refuser]int
	}
}

// durations are how long things took, and how often until they succeeded.
type durations struct {
	attempt   *histograms
	algorithm *metrics.Histogram
	sli       *histograms
	permit    *histograms
	plugin    *histograms
	tries     *metrics.Histogram
}

// clusterMeter is what is known of the cluster.
type clusterMeter struct {
	cache         *gauges
	unschedulable *gauges
	percent       *gauges
	lastEvent     *gauges
}

const subsystem = "scheduler"

func newMeter(r metrics.KubeRegistry, workloads bool) *meter {
	if r == nil {
		r = metrics.NewKubeRegistry()
	}
	m := &meter{
		waiting:  gauge("pending_pods", "Pending Pods by queue: active, backoff, unschedulable, gated.", metrics.STABLE, "queue"),
		incoming: counter("queue_incoming_pods_total", "Pods added to scheduling queues by event and queue.", "queue", "event"),
		attempts: counter("schedule_attempts_total", "Attempts to schedule Pods by result: scheduled, unschedulable, error.", "result", "profile"),
		points:   rated(&metrics.HistogramOpts{Name: "framework_extension_point_duration_seconds", Help: "Duration of all plugins of an extension point.", Buckets: metrics.ExponentialBuckets(0.0001, 2, 12), StabilityLevel: metrics.STABLE}, "extension_point", "status", "profile"),
		took: durations{
			attempt:   rated(&metrics.HistogramOpts{Name: "scheduling_attempt_duration_seconds", Help: "Duration of an attempt: scheduling and binding.", Buckets: attemptBuckets(), StabilityLevel: metrics.STABLE}, "result", "profile"),
			algorithm: metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: subsystem, Name: "scheduling_algorithm_duration_seconds", Help: "Duration of finding a node.", Buckets: attemptBuckets(), StabilityLevel: metrics.BETA}),
			sli:       rated(&metrics.HistogramOpts{Name: "pod_scheduling_sli_duration_seconds", Help: "Time from a Pod's first entry into the queue, gates aside, to its binding.", Buckets: metrics.ExponentialBuckets(0.01, 2, 20), StabilityLevel: metrics.BETA}, "attempts"),
			permit:    rated(&metrics.HistogramOpts{Name: "permit_wait_duration_seconds", Help: "Time Pods waited on Permit.", Buckets: metrics.ExponentialBuckets(0.001, 2, 15), StabilityLevel: metrics.BETA}, "result"),
			plugin:    rated(&metrics.HistogramOpts{Name: "plugin_execution_duration_seconds", Help: "Duration of a plugin at an extension point, in one cycle of ten. At Filter and Score it is that of one node, or of all nodes judged at once from columns.", Buckets: metrics.ExponentialBuckets(0.00001, 1.5, 20), StabilityLevel: metrics.BETA}, "plugin", "extension_point", "status"),
			tries:     metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: subsystem, Name: "pod_scheduling_attempts", Help: "Attempts until a Pod was scheduled.", Buckets: metrics.ExponentialBuckets(1, 2, 5), StabilityLevel: metrics.STABLE}),
		},
		cluster: clusterMeter{
			cache:         gauge("cache_size", "Nodes, Pods and assumed Pods the scheduler knows.", metrics.ALPHA, "type"),
			unschedulable: gauge("unschedulable_pods", "Unschedulable Pods by the plugin that refused them.", metrics.BETA, "plugin", "profile"),
			percent:       gantryGauge("percentage_of_nodes_to_score", "Percentage of nodes looked for in force; 0 is the adaptive sample of kube-scheduler.", "profile"),
			lastEvent:     gantryGauge("informer_last_event_timestamp_seconds", "When the informer last told of a change: how fresh the scheduler's view is.", "resource"),
		},
	}
	m.work = newWorkMeter(r, workloads)
	m.asked = newAskedMeter(r)
	m.group = newGroupMeter(r, workloads)
	r.MustRegister(m.waiting, m.incoming, m.attempts, m.points, m.took.attempt, m.took.algorithm, m.took.sli, m.took.permit, m.took.plugin, m.took.tries,
		m.cluster.cache, m.cluster.unschedulable, m.cluster.percent, m.cluster.lastEvent)
	return m
}

func gauge(name, help string, level metrics.StabilityLevel, labels ...string) *gauges {
	v := metrics.NewGaugeVec(&metrics.GaugeOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: level}, labels)
	return newLabelled[metrics.GaugeMetric](v, v.WithLabelValues)
}

func gantryGauge(name, help string, labels ...string) *gauges {
	v := metrics.NewGaugeVec(&metrics.GaugeOpts{Namespace: "gantry", Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels)
	return newLabelled[metrics.GaugeMetric](v, v.WithLabelValues)
}

func counter(name, help string, labels ...string) *counters {
	v := metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.STABLE}, labels)
	return newLabelled[metrics.CounterMetric](v, v.WithLabelValues)
}

func histogram(name, help string, buckets []float64, labels ...string) *histograms {
	return rated(&metrics.HistogramOpts{Name: name, Help: help, Buckets: buckets, StabilityLevel: metrics.ALPHA}, labels...)
}

func rated(o *metrics.HistogramOpts, labels ...string) *histograms {
	o.Subsystem = subsystem
	v := metrics.NewHistogramVec(o, labels)
	return newLabelled[metrics.ObserverMetric](v, v.WithLabelValues)
}

// pending sets the gauges of the queue; it is called at every turn of the loop.
func (m *meter) pending(c queue.Count) {
	if c == m.last.count {
		return
	}
	m.last.count = c
	for _, q := range [...]struct {
		place queue.Place
		n     int
	}{{queue.Active, c.Active}, {queue.Backoff, c.Backoff}, {queue.Unschedulable, c.Unschedulable}, {queue.Gated, c.Gated}} {
		m.waiting.WithLabelValues(string(q.place)).Set(float64(q.n))
	}
}

// knows sets the gauges of what is known.
func (m *meter) knows(nodes, pods, assumed int) {
	if now := [3]int{nodes, pods, assumed}; now != m.last.cache {
		m.last.cache = now
		for i, what := range []string{"nodes", "pods", "assumed_pods"} {
			m.cluster.cache.WithLabelValues(what).Set(float64(now[i]))
		}
	}
}

// begin sets what is so from the start.
func (m *meter) begin(profiles map[string]place.Sample) {
	for _, what := range []queue.Place{queue.Active, queue.Backoff, queue.Unschedulable, queue.Gated} {
		m.waiting.WithLabelValues(string(what)).Set(0)
	}
	for _, what := range []string{"nodes", "pods", "assumed_pods"} {
		m.cluster.cache.WithLabelValues(what).Set(0)
	}
	m.entities(nil)
	m.work.inflight.WithLabelValues("PodPopped").Set(0)
	for name, s := range profiles {
		m.cluster.percent.WithLabelValues(name).Set(float64(max(s.Percent, 0)))
	}
	for _, what := range []string{"nodes", "pods"} {
		m.cluster.lastEvent.WithLabelValues(what).SetToCurrentTime()
	}
}

func (m *meter) heard(resource string) {
	m.cluster.lastEvent.WithLabelValues(resource).SetToCurrentTime()
}

func (m *meter) moved(v queue.Move) {
	m.incoming.WithLabelValues(queueLabel(v), eventLabel(v)).Inc()
}

// queueLabel is upstream's name for where a Pod went: gated Pods come to the unschedulable ones.
func queueLabel(v queue.Move) string {
	if v.To == queue.Gated {
		return string(queue.Unschedulable)
	}
	return string(v.To)
}

// eventLabel is upstream's name for why.
func eventLabel(v queue.Move) string {
	if v.Cause == queue.CausePodAdd {
		return "UnscheduledPodAdd"
	}
	return v.Cause
}

// refusals sets the number of unschedulable Pods by plugin.
func (m *meter) refusals(now map[queue.Refuser]int) {
	for r, n := range now {
		m.cluster.unschedulable.WithLabelValues(r.Plugin, r.Profile).Set(float64(n))
	}
	for r := range m.last.refusals {
		if _, still := now[r]; !still {
			m.cluster.unschedulable.WithLabelValues(r.Plugin, r.Profile).Set(0)
		}
	}
	m.last.refusals = now
}

func (m *meter) attempt(a *attempt, result string) {
	m.attempts.WithLabelValues(result, a.profile.Name).Inc()
	m.took.attempt.WithLabelValues(result, a.profile.Name).Observe(time.Since(a.began).Seconds())
	for point, took := range a.points {
		status := "Success"
		switch {
		case point == "PostFilter":
			status = a.hunted.String()
		case point == a.endedAt && (point != "Filter" || a.endedBy == framework.Error): // that no node fits is no failure of filtering
			status = a.endedBy.String()
		}
		m.points.WithLabelValues(point, status, a.profile.Name).Observe(time.Duration(took).Seconds())
	}
}

// ruled is called when all plugins have been asked about the nodes.
func (m *meter) ruled(took journal.Took) { m.took.algorithm.Observe(time.Duration(took).Seconds()) }

func (m *meter) placed(a *attempt) {
	attempts := "15+" // upstream's label for all beyond
	if a.Attempts < 15 {
		attempts = strconv.Itoa(a.Attempts)
	}
	m.took.sli.WithLabelValues(attempts).Observe(time.Since(a.Arrived).Seconds())
	m.took.tries.Observe(float64(a.Attempts))
	if a.Flushed {
		m.work.flushed.Inc()
	}
}
