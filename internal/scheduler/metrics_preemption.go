package scheduler

import (
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
)

// preemptionMetrics counts searches for victims and what became of these. Those by kind of
// preemptor exist with the gate GenericWorkload only, as upstream's.
type preemptionMetrics struct {
	attempts      *metrics.Counter
	victims       *metrics.Histogram
	group         *counterVec
	groupVictims  *metrics.Histogram
	units         *histogramVec
	pdbViolations *counterVec
	evaluation    *histogramVec
	execution     *histogramVec
	goroutines    *histogramVec
	asyncResults  *counterVec
}

func newPreemptionMetrics(r metrics.KubeRegistry, workloads bool) preemptionMetrics {
	units, times := metrics.ExponentialBuckets(1, 2, 11), metrics.ExponentialBuckets(0.001, 2, 16)
	h := preemptionMetrics{
		attempts: metrics.NewCounter(&metrics.CounterOpts{Subsystem: subsystem, Name: "preemption_attempts_total",
			Help:           "Searches for Pods that could leave for a single Pod, whatever they found.",
			StabilityLevel: metrics.STABLE}),
		victims: metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: subsystem, Name: "preemption_victims",
			Help: "Number of victims of a preemption for a single Pod.", Buckets: metrics.ExponentialBuckets(1, 2, 7),
			StabilityLevel: metrics.STABLE}),
		group: alphaCounter("workload_preemption_attempts_total",
			"Searches for Pods that could leave for a PodGroup, by result.", "result"),
		groupVictims: metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: subsystem,
			Name: "workload_preemption_victims", Help: "Number of victims of a preemption for a PodGroup.",
			Buckets: units, StabilityLevel: metrics.ALPHA}),
		units: histogram("preemption_workload_disruptions",
			"Number of victims of a preemption; Pods that can only leave together count once.", units, "preemptor"),
		pdbViolations: alphaCounter("preemption_pdb_violations_total",
			"Victims whose leaving their disruption budget did not allow.", "preemptor"),
		evaluation: histogram("preemption_evaluation_duration_seconds", "Time to find the victims.", times,
			"preemptor", "result"),
		execution: histogram("preemption_execution_duration_seconds",
			"Time to make the victims of a preemption leave, beside the cycles.", times, "preemptor", "result"),
		goroutines: histogram("preemption_goroutines_duration_seconds",
			"Time to make the victims of a preemption leave.", metrics.ExponentialBuckets(0.01, 2, 20), "result"),
		asyncResults: alphaCounter("preemption_goroutines_execution_total",
			"Preemptions carried out beside the cycles.", "result"),
	}
	r.MustRegister(h.attempts, h.victims, h.goroutines, h.asyncResults)
	if workloads {
		r.MustRegister(h.group, h.groupVictims, h.units, h.pdbViolations, h.evaluation, h.execution)
	}
	return h
}

func alphaCounter(name, help string, labels ...string) *counterVec {
	v := metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem, Name: name, Help: help,
		StabilityLevel: metrics.ALPHA}, labels)
	return newCachedVec[metrics.CounterMetric](v, v.WithLabelValues)
}

func preemptorType(group bool) string {
	if group {
		return typeGroup
	}
	return typePod
}

// observeSearch takes in a search.
func (h preemptionMetrics) observeSearch(v frameworkruntime.PreemptionAttempt) {
	kind, victims := preemptorType(v.PodGroup), h.victims
	if v.PodGroup {
		h.group.WithLabelValues(v.Code.String()).Inc()
		victims = h.groupVictims
	} else {
		h.attempts.Inc()
	}
	h.evaluation.WithLabelValues(kind, v.Code.String()).Observe(v.Took.Seconds())
	if v.Code != framework.Success {
		return
	}
	victims.Observe(float64(v.Victims))
	h.units.WithLabelValues(kind).Observe(float64(v.Units))
	h.pdbViolations.WithLabelValues(kind).Add(float64(v.PDBViolations))
}

// observeEviction is called when the victims of a preemption have been made to leave, or could not
// be.
func (m *schedulerMetrics) observeEviction(group bool, err error, took time.Duration) {
	h, result := m.async.preemption, resultLabel(err)
	h.asyncResults.WithLabelValues(result).Inc()
	h.goroutines.WithLabelValues(result).Observe(took.Seconds())
	h.execution.WithLabelValues(preemptorType(group), result).Observe(took.Seconds())
}

func resultLabel(err error) string {
	if err != nil {
		return "error"
	}
	return "success"
}

// apiCallMetrics counts writes to the API that no scheduling cycle waits for.
type apiCallMetrics struct {
	pending   *gaugeVec
	executed  *counterVec
	durations *histogramVec
}

func newAPICallMetrics(r metrics.KubeRegistry) apiCallMetrics {
	c := apiCallMetrics{
		pending: gauge("pending_async_api_calls",
			"Writes to the API beside the cycles that wait: statuses not begun, bindings not answered.", metrics.ALPHA,
			"call_type"),
		executed: alphaCounter("async_api_call_execution_total", "Writes to the API made beside the cycles.",
			"call_type", "result"),
		durations: histogram("async_api_call_execution_duration_seconds",
			"Duration of a write to the API made beside the cycles.", metrics.ExponentialBuckets(0.001, 2, 15),
			"call_type", "result"),
	}
	r.MustRegister(c.pending, c.executed, c.durations)
	return c
}

func (c apiCallMetrics) hooks() frameworkruntime.APICallHooks {
	return frameworkruntime.APICallHooks{
		Pending: func(call string, n int) { c.pending.WithLabelValues(call).Add(float64(n)) },
		Executed: func(call string, err error, took time.Duration) {
			c.executed.WithLabelValues(call, resultLabel(err)).Inc()
			c.durations.WithLabelValues(call, resultLabel(err)).Observe(took.Seconds())
		},
	}
}
