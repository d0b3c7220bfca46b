package horizontalpodautoscaler

import (
	"fmt"
	"slices"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// Options are the settings of the controller.
type Options = controllerruntime.HorizontalPodAutoscaling

// In is what one decision about an autoscaler is made from. Nothing of it is changed.
type In struct {
	HPA     *autoscalingv2.HorizontalPodAutoscaler
	Options Options
	// Scale is the target's scale subresource; ScaleErr is why there is none.
	Scale    *autoscalingv1.Scale
	ScaleErr error
	// Pods are those of the autoscaler's namespace that the scale's selector selects.
	Pods []*corev1.Pod
	// SelectedBy names autoscalers (NAMESPACE/NAME) whose selectors select one of Pods, in order.
	// More than one is ambiguous; the caller may leave out all after the second.
	SelectedBy []string
	// MetricValues are what the metrics APIs answered, one for each metric of the spec; nil if
	// NeedsFigures says that none is needed.
	MetricValues []MetricValue
	History      History
	Now          time.Time
}

// MetricValue is the answer of a metrics API about one metric of a spec. Values are in thousandths.
type MetricValue struct {
	Pods   map[string]Sample // Resource, ContainerResource and Pods: by Pod name
	Value  int64             // Object
	Values []int64           // External
	Err    error
}

// Sample is one Pod's value, measured over Window until Timestamp.
type Sample struct {
	Value     int64
	Timestamp time.Time
	Window    time.Duration
}

// Event is an event about the autoscaler.
type Event struct{ Type, Reason, Message string }

// Computation is the proposal of one metric, for the controller's own metrics.
type Computation struct {
	Type          autoscalingv2.MetricSourceType
	Action, Error string
}

// Actions and errors as the controller's metrics name them.
const (
	actionScaleUp   = "scale_up"
	actionScaleDown = "scale_down"
	none            = "none"
	errorSpec       = "spec"
	errorInternal   = "internal"
)

// Plan is a decision. If Rescale, the caller writes Desired to the scale, then calls Outcome.
type Plan struct {
	Rescale      bool
	Desired      int32
	Computations []Computation

	reason   string // of the new size
	statuses []autoscalingv2.MetricStatus
	err      error // of some metrics, while others decide
	failed   bool  // nothing was decided: the decision's status and error stand
	*decision
}

// Outcome is what is left to do after the scale was written or was not to be.
type Outcome struct {
	Status  autoscalingv2.HorizontalPodAutoscalerStatus
	Events  []Event
	History History
	// Decided tells whether Desired replicas were decided on and, if that differs from the scale,
	// written.
	Decided bool
	Desired int32
	Action  string // scale_up, scale_down or none
	// Err is what the sync reports, nil if nothing is wrong; ErrorLabel says whose fault: spec,
	// internal or none.
	Err        error
	ErrorLabel string
}

// decision collects what changes while one decision is made.
type decision struct {
	in      *In
	status  autoscalingv2.HorizontalPodAutoscalerStatus
	events  []Event
	history History
}

func (d *decision) event(kind, reason, message string) {
	d.events = append(d.events, Event{kind, reason, message})
}

func (d *decision) warn(reason, message string) { d.event(corev1.EventTypeWarning, reason, message) }

// reference names the target as upstream's errors do.
func (in *In) reference() string {
	ref := &in.HPA.Spec.ScaleTargetRef
	return fmt.Sprintf("%s/%s/%s", ref.Kind, in.HPA.Namespace, ref.Name)
}

func (in *In) minReplicas() int32 {
	if m := in.HPA.Spec.MinReplicas; m != nil {
		return *m
	}
	return 1
}

// scaledToZero tells whether the autoscaler itself took the last replica away.
func (in *In) scaledToZero() bool {
	return in.Options.ScaleToZero && slices.ContainsFunc(in.HPA.Status.Conditions,
		func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
			return c.Type == autoscalingv2.ScaledToZero && c.Status == corev1.ConditionTrue
		})
}

// measuredWithoutPods tells whether a metric is there also when no Pod is.
func (in *In) measuredWithoutPods() bool {
	return slices.ContainsFunc(in.HPA.Spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
		return m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
	})
}

// selector parses the selector of the scale.
func (in *In) selector() (labels.Selector, error) { return labels.Parse(in.Scale.Status.Selector) }

// NeedsFigures tells whether Decide will look at metrics: the target has replicas within the bounds
// or may leave zero, and its selector selects Pods of this autoscaler alone.
func (in *In) NeedsFigures() bool {
	if in.ScaleErr != nil || !in.metricsDecide() || in.Scale.Status.Selector == "" || len(in.SelectedBy) > 1 {
		return false
	}
	_, err := in.selector()
	return err == nil
}

// metricsDecide tells whether the metrics decide, and not the bounds or somebody's zero.
func (in *In) metricsDecide() bool {
	current, least := in.Scale.Spec.Replicas, in.minReplicas()
	if current == 0 {
		return in.scaledToZero() && (least != 0 || in.measuredWithoutPods())
	}
	return current <= in.HPA.Spec.MaxReplicas && current >= least
}

// Decide decides how many replicas the target gets.
func Decide(in In) Plan {
	d := &decision{in: &in, status: *in.HPA.Status.DeepCopy(), history: in.History.clone()}
	if in.ScaleErr != nil {
		d.warn("FailedGetScale", in.ScaleErr.Error())
		d.set(autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedGetScale",
			fmt.Sprintf("the HPA controller was unable to get the target's current scale: %v", in.ScaleErr))
		return Plan{decision: d, failed: true, err: in.ScaleErr}
	}
	d.set(autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededGetScale",
		"the HPA controller was able to get the target's current scale")
	current, least, most := in.Scale.Spec.Replicas, in.minReplicas(), in.HPA.Spec.MaxReplicas
	if d.history.Recommendations == nil {
		d.history.Recommendations = []Recommendation{{current, in.Now}}
	}
	switch {
	case in.metricsDecide():
		return d.byMetrics()
	case current == 0:
		d.set(autoscalingv2.ScalingActive, corev1.ConditionFalse, "ScalingDisabled",
			"scaling is disabled since the replica count of the target is zero")
		if !in.Options.ScaleToZero {
			d.remove(autoscalingv2.ScaledToZero)
		}
		return Plan{decision: d}
	case current > most:
		return Plan{decision: d, Rescale: true, Desired: most,
			reason: "Current number of replicas above Spec.MaxReplicas"}
	default:
		return Plan{decision: d, Rescale: true, Desired: least, reason: belowMin}
	}
}

const belowMin = "Current number of replicas below Spec.MinReplicas"

// byMetrics decides by the metrics, within the bounds and the behaviour.
func (d *decision) byMetrics() Plan {
	in := d.in
	all := d.computeReplicasForMetrics()
	best, current := all.best, in.Scale.Spec.Replicas
	p := Plan{decision: d, Computations: all.computations, statuses: all.statuses, err: all.err}
	if p.err != nil && best.replicas < 0 {
		d.keep(p.statuses)
		d.warn("FailedComputeMetricsReplicas", p.err.Error())
		p.failed = true
		p.err = fmt.Errorf("failed to compute desired number of replicas based on listed metrics for %s: %w",
			in.reference(), p.err)
		return p
	}
	if best.replicas > 0 {
		p.Desired = best.replicas
	} else {
		best.metric = ""
	}
	switch {
	case p.Desired > current:
		p.reason = best.metric + " above target"
	case p.Desired < current:
		p.reason = "All metrics below target"
	}
	if in.HPA.Spec.Behavior == nil {
		p.Desired = d.normalize(p.Desired)
	} else {
		p.Desired = d.normalizeByBehavior(p.Desired)
	}
	if least := in.minReplicas(); current == 0 && least != 0 && p.Desired < least {
		p.Desired = least
		if p.reason == "" {
			p.reason = belowMin
		}
	}
	p.Rescale = p.Desired != current
	return p
}

// Outcome returns what follows from the plan; written is the error of writing the scale, nil if
// Rescale was false.
func (p Plan) Outcome(written error) Outcome {
	d := p.decision
	in := d.in
	o := Outcome{Action: none, ErrorLabel: none, Err: p.err}
	switch {
	case p.failed:
	case p.Rescale && written != nil:
		d.warn("FailedRescale", fmt.Sprintf("New size: %d; reason: %s; error: %v", p.Desired, p.reason, written))
		d.set(autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedUpdateScale",
			fmt.Sprintf("the HPA controller was unable to update the target scale: %v", written))
		d.keep(p.statuses)
		o.Err = fmt.Errorf("failed to rescale %s: %w", in.reference(), written)
	case p.Rescale:
		o.Action = d.rescaled(p.Desired, p.reason)
		o.Decided = true
		d.write(p.Desired, p.statuses)
		d.status.LastScaleTime = &metav1.Time{Time: in.Now}
	default:
		o.Decided = true
		d.write(in.Scale.Spec.Replicas, p.statuses)
	}
	if o.Err != nil {
		o.ErrorLabel = errorLabel(o.Err)
	}
	o.Status, o.Events, o.History, o.Desired = d.status, d.events, d.history, d.status.DesiredReplicas
	return o
}

// rescaled notes a successful change of the scale and returns its name in metrics.
func (d *decision) rescaled(desired int32, reason string) (action string) {
	in := d.in
	current := in.Scale.Spec.Replicas
	d.set(autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededRescale",
		fmt.Sprintf("the HPA controller was able to update the target scale to %d", desired))
	d.event(corev1.EventTypeNormal, "SuccessfulRescale", fmt.Sprintf("New size: %d; reason: %s", desired, reason))
	d.history.addScaleEvent(in.HPA.Spec.Behavior, desired-current, in.Now)
	switch {
	case !in.Options.ScaleToZero:
		d.remove(autoscalingv2.ScaledToZero)
	case current > 0 && desired == 0 && in.minReplicas() == 0 && in.measuredWithoutPods():
		d.set(autoscalingv2.ScaledToZero, corev1.ConditionTrue, "ScaledToZero",
			"the HPA controller scaled the workload to zero")
	default:
		d.set(autoscalingv2.ScaledToZero, corev1.ConditionFalse, "NotScaledToZero",
			"the HPA controller did not scale the workload to zero")
	}
	if desired > current {
		return actionScaleUp
	}
	return actionScaleDown
}
