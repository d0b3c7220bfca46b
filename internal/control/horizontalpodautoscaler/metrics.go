package horizontalpodautoscaler

import (
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const (
	subsystem = "horizontal_pod_autoscaler_controller"

	actionLabels = "The label 'action' should be either 'scale_down', 'scale_up', or 'none'. "
	typeLabel    = "The label 'metric_type' corresponds to HPA.spec.metrics[*].type"
	errorLabels  = "Also, the label 'error' should be either 'spec', 'internal', or 'none'. "
	bothErrors   = "Note that if both spec and internal errors happen during a reconciliation, the first one to " +
		"occur is reported in `error` label."
)

var (
	reconciliations = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "reconciliations_total", StabilityLevel: metrics.BETA,
		Help: "Number of reconciliations of HPA controller. " + actionLabels + errorLabels + bothErrors,
	}, []string{"action", "error"})
	reconciliationDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: "reconciliation_duration_seconds", StabilityLevel: metrics.BETA,
		Help: "The time(seconds) that the HPA controller takes to reconcile once. " + actionLabels + errorLabels +
			bothErrors,
		Buckets: metrics.ExponentialBuckets(0.001, 2, 15),
	}, []string{"action", "error"})
	computations = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "metric_computation_total", StabilityLevel: metrics.BETA,
		Help: "Number of metric computations. " + actionLabels + errorLabels + typeLabel,
	}, []string{"action", "error", "metric_type"})
	computationDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: "metric_computation_duration_seconds", StabilityLevel: metrics.BETA,
		Help: "The time(seconds) that the HPA controller takes to calculate one metric. " + actionLabels +
			"The label 'error' should be either 'spec', 'internal', or 'none'. " + typeLabel,
		Buckets: metrics.ExponentialBuckets(0.001, 2, 15),
	}, []string{"action", "error", "metric_type"})
	autoscalers = metrics.NewGauge(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: "num_horizontal_pod_autoscalers", StabilityLevel: metrics.ALPHA,
		Help: "Current number of controlled HPA objects.",
	})
	desiredReplicas = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: "desired_replicas", StabilityLevel: metrics.ALPHA,
		Help: "Current desired replica count for HPA objects.",
	}, []string{"namespace", "hpa_name"})
	staleSkips = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "stale_sync_skips_total", StabilityLevel: metrics.ALPHA,
		Help: "Total number of HPA syncs skipped due to a stale watch cache.",
	}, []string{"group", "resource"})
)

// RegisterMetrics registers the controller's metrics once, as New does: what only decides shares a
// process with upstream's controller in hack/hpadiff.
var RegisterMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(reconciliations, reconciliationDuration, computations, computationDuration,
		autoscalers, desiredReplicas, staleSkips)
})

// count counts what one metric proposed and how long its value took.
func (c Computation) count(took time.Duration) {
	computations.WithLabelValues(c.Action, c.Error, string(c.Type)).Inc()
	computationDuration.WithLabelValues(c.Action, c.Error, string(c.Type)).Observe(took.Seconds())
}

// count counts a sync of h.
func (o Outcome) count(h *autoscalingv2.HorizontalPodAutoscaler, took time.Duration) {
	reconciliations.WithLabelValues(o.Action, o.ErrorLabel).Inc()
	reconciliationDuration.WithLabelValues(o.Action, o.ErrorLabel).Observe(took.Seconds())
	if o.Decided {
		desiredReplicas.WithLabelValues(h.Namespace, h.Name).Set(float64(o.Desired))
	}
}
