package metrics

import (
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
)

// runtimeCalls counts calls to the runtime.
type runtimeCalls struct {
	total, failed *prometheus.CounterVec
	took          *prometheus.HistogramVec
	sandbox       *prometheus.HistogramVec
	sandboxFailed *prometheus.CounterVec
}

func newRuntimeCalls(k factory) *runtimeCalls {
	return &runtimeCalls{
		total: k.counter("kubelet_runtime_operations_total",
			"[ALPHA] Cumulative number of runtime operations by operation type.", "operation_type"),
		failed: k.counter("kubelet_runtime_operations_errors_total",
			"[ALPHA] Cumulative number of runtime operation errors by operation type.", "operation_type"),
		took: k.histogram("kubelet_runtime_operations_duration_seconds",
			"[ALPHA] Duration in seconds of runtime operations. Broken down by operation type.", callBuckets,
			"operation_type"),
		sandbox: k.histogram("kubelet_run_podsandbox_duration_seconds",
			"[ALPHA] Duration in seconds of the run_podsandbox operations. Broken down by RuntimeClass.Handler.",
			prometheus.DefBuckets, "runtime_handler"),
		sandboxFailed: k.counter("kubelet_run_podsandbox_errors_total",
			"[ALPHA] Cumulative number of the run_podsandbox operation errors by RuntimeClass.Handler.",
			"runtime_handler"),
	}
}

func (c *runtimeCalls) called(method string, took time.Duration, err error) {
	op := operation(method)
	c.total.WithLabelValues(op).Inc()
	c.took.WithLabelValues(op).Observe(took.Seconds())
	if err != nil {
		c.failed.WithLabelValues(op).Inc()
	}
	if method == "RunPodSandbox" {
		c.sandbox.WithLabelValues("").Observe(took.Seconds())
		if err != nil {
			c.sandboxFailed.WithLabelValues("").Inc()
		}
	}
}

// operation is upstream's name of a call: run_podsandbox, container_status.
func operation(method string) string {
	var b strings.Builder
	for i, r := range method {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.ReplaceAll(b.String(), "pod_sandbox", "podsandbox")
}
