package persistentvolumebinder

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	operationSeconds = metrics.NewHistogramVec(&metrics.HistogramOpts{Name: "volume_operation_total_seconds",
		StabilityLevel: metrics.BETA, Help: "Storage operation end to end duration in seconds",
		Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}},
		[]string{"plugin_name", "operation_name"})
	operationErrors = metrics.NewCounterVec(&metrics.CounterOpts{Name: "volume_operation_errors_total",
		StabilityLevel: metrics.ALPHA, Help: "Total volume operation errors"},
		[]string{"plugin_name", "operation_name"})
)

func init() { legacyregistry.MustRegister(operationSeconds, operationErrors) }

// Operations of provisioners, as the label operation_name has them.
const (
	provision      = "provision" // from the request for a volume until its claim is bound
	deletion       = "delete"    // from the volume's release until it is gone
	unknownPlugin  = "N/A"
	failedDeletion = "VolumeFailedDelete" // reason of the event
)

// operation is one that has begun.
type operation struct {
	plugin, name string
	began        time.Time
}

// operations are those that have begun, by queue key. The controller's one worker alone has them.
type operations map[string]operation

// begin notes that an operation begins, unless it has.
func (o operations) begin(key string, started operation) {
	if _, has := o[key]; !has {
		o[key] = started
	}
}

// step notes what became of a step for a claim or volume.
func (o operations) step(key string, s Step, err error, now time.Time) {
	x, begun := o[key]
	switch {
	case !begun:
	case err != nil, s.Reason == failedDeletion:
		operationErrors.WithLabelValues(x.plugin, x.name).Inc()
	case s.ClaimStatus != nil && s.ClaimStatus.Status.Phase == v1.ClaimBound:
		o.end(key, now)
	}
}

// end notes that an operation has done what it was to do.
func (o operations) end(key string, now time.Time) {
	if x, begun := o[key]; begun {
		operationSeconds.WithLabelValues(x.plugin, x.name).Observe(now.Sub(x.began).Seconds())
		delete(o, key)
	}
}
