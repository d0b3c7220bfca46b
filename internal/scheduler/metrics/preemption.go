package metrics

import (
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
)

// Preemption counts searches for victims and what became of the victims. The metrics by type of
// preemptor are served with the gate GenericWorkload only, as upstream's. Any goroutine may call
// it.
type Preemption struct {
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

func newPreemption(r metrics.KubeRegistry, genericWorkload bool) *Preemption {
	units, times := metrics.ExponentialBuckets(1, 2, 11), metrics.ExponentialBuckets(0.001, 2, 16)
	h := &Preemption{
		attempts: metrics.NewCounter(&metrics.CounterOpts{Subsystem: Subsystem, Name: "preemption_attempts_total",
			Help:           "Searches for Pods that could leave for a single Pod, whatever they found.",
			StabilityLevel: metrics.STABLE}),
		victims: metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: Subsystem, Name: "preemption_victims",
			Help: "Number of victims of a preemption for a single Pod.", Buckets: metrics.ExponentialBuckets(1, 2, 7),
			StabilityLevel: metrics.STABLE}),
		group: counter("workload_preemption_attempts_total",
			"Searches for Pods that could leave for a PodGroup, by result.", metrics.ALPHA, "result"),
		groupVictims: metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: Subsystem,
			Name: "workload_preemption_victims", Help: "Number of victims of a preemption for a PodGroup.",
			Buckets: units, StabilityLevel: metrics.ALPHA}),
		units: histogram("preemption_workload_disruptions",
			"Number of victims of a preemption; Pods that can only leave together count once.", units, "preemptor"),
		pdbViolations: counter("preemption_pdb_violations_total",
			"Victims whose leaving their disruption budget did not allow.", metrics.ALPHA, "preemptor"),
		evaluation: histogram("preemption_evaluation_duration_seconds", "Time to find the victims.", times,
			"preemptor", "result"),
		execution: histogram("preemption_execution_duration_seconds",
			"Time to make the victims of a preemption leave, beside the cycles.", times, "preemptor", "result"),
		goroutines: histogram("preemption_goroutines_duration_seconds",
			"Time to make the victims of a preemption leave.", metrics.ExponentialBuckets(0.01, 2, 20), "result"),
		asyncResults: counter("preemption_goroutines_execution_total",
			"Preemptions carried out beside the cycles.", metrics.ALPHA, "result"),
	}
	r.MustRegister(h.attempts, h.victims, h.goroutines, h.asyncResults)
	if genericWorkload {
		r.MustRegister(h.group, h.groupVictims, h.units, h.pdbViolations, h.evaluation, h.execution)
	}
	return h
}

func preemptorType(group bool) string {
	if group {
		return typeGroup
	}
	return typePod
}

// ObserveSearch counts a search for victims that ended.
func (h *Preemption) ObserveSearch(v frameworkruntime.PreemptionAttempt) {
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

// ObserveEviction counts that the victims of a preemption, for a PodGroup or a single Pod, have
// been evicted in took, or could not be.
func (h *Preemption) ObserveEviction(group bool, err error, took time.Duration) {
	result := resultLabel(err)
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

// APICalls counts writes to the API server that no scheduling cycle waits for. Any goroutine may
// call it.
type APICalls struct {
	pending   *gaugeVec
	executed  *counterVec
	durations *histogramVec
}

func newAPICalls(r metrics.KubeRegistry) *APICalls {
	c := &APICalls{
		pending: gauge("pending_async_api_calls",
			"Writes to the API beside the cycles that wait: statuses not begun, bindings not answered.", metrics.ALPHA,
			"call_type"),
		executed: counter("async_api_call_execution_total", "Writes to the API made beside the cycles.", metrics.ALPHA,
			"call_type", "result"),
		durations: histogram("async_api_call_execution_duration_seconds",
			"Duration of a write to the API made beside the cycles.", metrics.ExponentialBuckets(0.001, 2, 15),
			"call_type", "result"),
	}
	r.MustRegister(c.pending, c.executed, c.durations)
	return c
}

// Hooks count the writes of whoever calls them.
func (c *APICalls) Hooks() frameworkruntime.APICallHooks {
	return frameworkruntime.APICallHooks{
		Pending: func(call string, n int) { c.pending.WithLabelValues(call).Add(float64(n)) },
		Executed: func(call string, err error, took time.Duration) {
			c.executed.WithLabelValues(call, resultLabel(err)).Inc()
			c.durations.WithLabelValues(call, resultLabel(err)).Observe(took.Seconds())
		},
	}
}
