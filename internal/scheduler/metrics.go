package scheduler

import (
	"strconv"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// schedulerMetrics counts under upstream's metric names. Without a registry it counts for nobody.
type schedulerMetrics struct {
	waiting           *gaugeVec
	incoming          *counterVec
	attempts          *counterVec
	points            *histogramVec
	durations         durationMetrics
	cluster           clusterMetrics
	async             asyncMetrics
	pluginEvaluations pluginMetrics
	podGroups         podGroupMetrics
	last              struct {
		count queue.StageCounts
		cache [3]int
		noted map[string]int

		refusals map[queue.UnschedulablePlugin]int
	}
}

// durationMetrics are how long things took, and how often until they succeeded.
type durationMetrics struct {
	attempt   *histogramVec
	algorithm *metrics.Histogram
	sli       *histogramVec
	permit    *histogramVec
	plugin    *histogramVec
	attempts  *metrics.Histogram
}

// clusterMetrics is what is known of the cluster.
type clusterMetrics struct {
	cache         *gaugeVec
	unschedulable *gaugeVec
	percent       *gaugeVec
	lastEvent     *gaugeVec
}

const subsystem = "scheduler"

func newSchedulerMetrics(r metrics.KubeRegistry, workloads bool) *schedulerMetrics {
	if r == nil {
		r = metrics.NewKubeRegistry()
	}
	m := &schedulerMetrics{
		waiting: gauge("pending_pods", "Pending Pods by queue: active, backoff, unschedulable, gated.", metrics.STABLE,
			"queue"),
		incoming: counter("queue_incoming_pods_total", "Pods added to scheduling queues by event and queue.", "queue",
			"event"),
		attempts: counter("schedule_attempts_total",
			"Attempts to schedule Pods by result: scheduled, unschedulable, error.", "result", "profile"),
		points: slowHistogram(&metrics.HistogramOpts{Name: "framework_extension_point_duration_seconds",
			Help: "Duration of all plugins of an extension point.", Buckets: metrics.ExponentialBuckets(0.0001, 2, 12),
			StabilityLevel: metrics.STABLE}, "extension_point", "status", "profile"),
		durations: durationMetrics{
			attempt: slowHistogram(&metrics.HistogramOpts{Name: "scheduling_attempt_duration_seconds",
				Help: "Duration of an attempt: scheduling and binding.", Buckets: attemptBuckets(),
				StabilityLevel: metrics.STABLE}, "result", "profile"),
			algorithm: metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: subsystem,
				Name: "scheduling_algorithm_duration_seconds", Help: "Duration of finding a node.",
				Buckets: attemptBuckets(), StabilityLevel: metrics.BETA}),
			sli: slowHistogram(&metrics.HistogramOpts{Name: "pod_scheduling_sli_duration_seconds",
				Help:    "Time from a Pod's first entry into the queue, gates aside, to its binding.",
				Buckets: metrics.ExponentialBuckets(0.01, 2, 20), StabilityLevel: metrics.BETA}, "attempts"),
			permit: slowHistogram(&metrics.HistogramOpts{Name: "permit_wait_duration_seconds",
				Help: "Time Pods waited on Permit.", Buckets: metrics.ExponentialBuckets(0.001, 2, 15),
				StabilityLevel: metrics.BETA}, "result"),
			plugin: slowHistogram(&metrics.HistogramOpts{Name: "plugin_execution_duration_seconds",
				Help: "Duration of a plugin at an extension point, in one cycle of ten. At Filter and Score it is " +
					"that of one node, or of all nodes judged at once from columns.",
				Buckets: metrics.ExponentialBuckets(0.00001, 1.5, 20), StabilityLevel: metrics.BETA}, "plugin",
				"extension_point", "status"),
			attempts: metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: subsystem, Name: "pod_scheduling_attempts",
				Help: "Attempts until a Pod was scheduled.", Buckets: metrics.ExponentialBuckets(1, 2, 5),
				StabilityLevel: metrics.STABLE}),
		},
		cluster: clusterMetrics{
			cache: gauge("cache_size", "Nodes, Pods and assumed Pods the scheduler knows.", metrics.ALPHA,
				"type"),
			unschedulable: gauge("unschedulable_pods", "Unschedulable Pods by the plugin that refused them.",
				metrics.BETA, "plugin", "profile"),
			percent: gantryGauge("percentage_of_nodes_to_score",
				"Percentage of nodes looked for in force; 0 is the adaptive sample of kube-scheduler.", "profile"),
			lastEvent: gantryGauge("informer_last_event_timestamp_seconds",
				"When the informer last told of a change: how fresh the scheduler's view is.", "resource"),
		},
	}
	m.async = newAsyncMetrics(r, workloads)
	m.pluginEvaluations = newPluginMetrics(r)
	m.podGroups = newPodGroupMetrics(r, workloads)
	r.MustRegister(m.waiting, m.incoming, m.attempts, m.points, m.durations.attempt, m.durations.algorithm,
		m.durations.sli, m.durations.permit, m.durations.plugin, m.durations.attempts,
		m.cluster.cache, m.cluster.unschedulable, m.cluster.percent, m.cluster.lastEvent)
	return m
}

func gauge(name, help string, level metrics.StabilityLevel, labels ...string) *gaugeVec {
	v := metrics.NewGaugeVec(&metrics.GaugeOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: level},
		labels)
	return newCachedVec[metrics.GaugeMetric](v, v.WithLabelValues)
}

func gantryGauge(name, help string, labels ...string) *gaugeVec {
	v := metrics.NewGaugeVec(&metrics.GaugeOpts{Namespace: "gantry", Subsystem: subsystem, Name: name, Help: help,
		StabilityLevel: metrics.ALPHA}, labels)
	return newCachedVec[metrics.GaugeMetric](v, v.WithLabelValues)
}

func counter(name, help string, labels ...string) *counterVec {
	v := metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem, Name: name, Help: help,
		StabilityLevel: metrics.STABLE}, labels)
	return newCachedVec[metrics.CounterMetric](v, v.WithLabelValues)
}

func histogram(name, help string, buckets []float64, labels ...string) *histogramVec {
	return slowHistogram(&metrics.HistogramOpts{Name: name, Help: help, Buckets: buckets,
		StabilityLevel: metrics.ALPHA}, labels...)
}

func slowHistogram(o *metrics.HistogramOpts, labels ...string) *histogramVec {
	o.Subsystem = subsystem
	v := metrics.NewHistogramVec(o, labels)
	return newCachedVec[metrics.ObserverMetric](v, v.WithLabelValues)
}

// setPending sets the gauges of the queue; it is called at every turn of the loop.
func (m *schedulerMetrics) setPending(c queue.StageCounts) {
	if c == m.last.count {
		return
	}
	m.last.count = c
	for _, q := range [...]struct {
		place queue.Stage
		n     int
	}{{queue.Active, c.Active}, {queue.Backoff, c.Backoff}, {queue.Unschedulable, c.Unschedulable},
		{queue.Gated, c.Gated}} {
		m.waiting.WithLabelValues(string(q.place)).Set(float64(q.n))
	}
}

// setCacheSize sets the gauges of what is known.
func (m *schedulerMetrics) setCacheSize(nodes, pods, assumed int) {
	if now := [3]int{nodes, pods, assumed}; now != m.last.cache {
		m.last.cache = now
		for i, what := range []string{"nodes", "pods", "assumed_pods"} {
			m.cluster.cache.WithLabelValues(what).Set(float64(now[i]))
		}
	}
}

// setProfiles sets what is so from the start.
func (m *schedulerMetrics) setProfiles(profiles map[string]schedule.Sample) {
	for _, what := range []queue.Stage{queue.Active, queue.Backoff, queue.Unschedulable, queue.Gated} {
		m.waiting.WithLabelValues(string(what)).Set(0)
	}
	for _, what := range []string{"nodes", "pods", "assumed_pods"} {
		m.cluster.cache.WithLabelValues(what).Set(0)
	}
	m.setEntities(nil)
	m.async.inflight.WithLabelValues("PodPopped").Set(0)
	for name, s := range profiles {
		m.cluster.percent.WithLabelValues(name).Set(float64(max(s.Percent, 0)))
	}
	for _, what := range []string{"nodes", "pods"} {
		m.cluster.lastEvent.WithLabelValues(what).SetToCurrentTime()
	}
}

func (m *schedulerMetrics) setLastEvent(resource string) {
	m.cluster.lastEvent.WithLabelValues(resource).SetToCurrentTime()
}

func (m *schedulerMetrics) observeQueueMove(v queue.Move) {
	m.incoming.WithLabelValues(queueLabel(v), eventLabel(v)).Inc()
}

// queueLabel is upstream's name for where a Pod went: gated Pods come to the unschedulable ones.
func queueLabel(v queue.Move) string {
	if v.Stage == queue.Gated {
		return string(queue.Unschedulable)
	}
	return string(v.Stage)
}

// eventLabel is upstream's name for why.
func eventLabel(v queue.Move) string {
	if v.Cause == queue.CausePodAdd {
		return "UnscheduledPodAdd"
	}
	return v.Cause
}

// setUnschedulable sets the number of unschedulable Pods by plugin.
func (m *schedulerMetrics) setUnschedulable(now map[queue.UnschedulablePlugin]int) {
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

func (m *schedulerMetrics) observeAttempt(a *schedulingAttempt, result string) {
	m.attempts.WithLabelValues(result, a.profile.Name).Inc()
	m.durations.attempt.WithLabelValues(result, a.profile.Name).Observe(time.Since(a.start).Seconds())
	for point, took := range a.pointDurations {
		status := "Success"
		switch {
		case point == "PostFilter":
			status = a.postFilterCode.String()
		case point == a.failedPoint && (point != "Filter" || a.failedCode == framework.Error):
			// that no node fits is no failure of filtering
			status = a.failedCode.String()
		}
		m.points.WithLabelValues(point, status, a.profile.Name).Observe(time.Duration(took).Seconds())
	}
}

// observePoints is called when all plugins have been asked about the nodes.
func (m *schedulerMetrics) observePoints(took journal.Took) {
	m.durations.algorithm.Observe(time.Duration(took).Seconds())
}

func (m *schedulerMetrics) observeScheduled(a *schedulingAttempt) {
	attempts := "15+" // upstream's label for all beyond
	if a.Attempts < 15 {
		attempts = strconv.Itoa(a.Attempts)
	}
	m.durations.sli.WithLabelValues(attempts).Observe(time.Since(a.AddedAt).Seconds())
	m.durations.attempts.Observe(float64(a.Attempts))
	if a.FlushedFromUnschedulable {
		m.async.flushedPods.Inc()
	}
}
