package horizontalpodautoscaler

import (
	"errors"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errInSpec marks errors that a change of the spec solves.
var errInSpec = errors.New("")

// errorLabel returns whose fault an error is, as the controller's metrics name it.
func errorLabel(err error) string {
	if errors.Is(err, errInSpec) {
		return errorSpec
	}
	return errorInternal
}

// set writes a condition. Its transition time changes with its status alone.
func (d *decision) set(kind autoscalingv2.HorizontalPodAutoscalerConditionType, status corev1.ConditionStatus,
	reason, message string) {
	at := slices.IndexFunc(d.status.Conditions,
		func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Type == kind })
	if at < 0 {
		at = len(d.status.Conditions)
		d.status.Conditions = append(d.status.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{Type: kind})
	}
	c := &d.status.Conditions[at]
	if c.Status != status {
		c.LastTransitionTime = metav1.Time{Time: d.in.Now}
	}
	c.Status, c.Reason, c.Message = status, reason, message
}

func (d *decision) remove(kind autoscalingv2.HorizontalPodAutoscalerConditionType) {
	d.status.Conditions = slices.DeleteFunc(d.status.Conditions,
		func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Type == kind })
}

// write fills in the status except conditions and the time of the last scaling.
func (d *decision) write(desired int32, metrics []autoscalingv2.MetricStatus) {
	generation := d.in.HPA.Generation
	d.status.ObservedGeneration = &generation
	d.status.CurrentReplicas, d.status.DesiredReplicas = d.in.Scale.Spec.Replicas, desired
	d.status.CurrentMetrics = metrics
}

// keep is write with the desired replicas of before.
func (d *decision) keep(metrics []autoscalingv2.MetricStatus) {
	d.write(d.status.DesiredReplicas, metrics)
}
