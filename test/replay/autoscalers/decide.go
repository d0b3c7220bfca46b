package autoscalers

import (
	"context"
	"errors"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gantry-project/gantry/internal/control/horizontalpodautoscaler"
)

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// Autoscaler is the object of a series, as the API server would have it at first.
func (s *Series) Autoscaler() *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{Spec: *s.Steps[0].Spec.DeepCopy(),
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name, UID: "u", Generation: 1}}
}

// Decide has Gantry decide each step, from start on.
func (s *Series) Decide(start time.Time) []Want {
	hpa, replicas := s.Autoscaler(), s.Replicas
	o := s.Options
	in := horizontalpodautoscaler.In{Options: horizontalpodautoscaler.Options{SyncPeriod: seconds(s.Period),
		DownscaleStabilization: seconds(o.Downscale), CPUInitializationPeriod: seconds(o.CPUInitialization),
		InitialReadinessDelay: seconds(o.ReadinessDelay), Tolerance: o.Tolerance, ScaleToZero: o.ScaleToZero}}
	var out []Want
	for i := range s.Steps {
		step := &s.Steps[i]
		in.Now = start.Add(time.Duration(i) * seconds(s.Period))
		if step.Spec != nil {
			hpa.Spec = *step.Spec.DeepCopy()
		}
		if step.Set != nil {
			replicas = *step.Set
		}
		w := &Snapshot{Step: step, Replicas: replicas, Now: in.Now}
		in.HPA, in.Scale, in.ScaleErr, in.Pods, in.MetricValues = hpa, w.Scale(), nil, nil, nil
		if step.ScaleErr != "" {
			in.Scale, in.ScaleErr = nil, errors.New(step.ScaleErr)
		}
		if in.NeedsFigures() {
			in.Pods = w.Pods()
			in.MetricValues = w.Clients().MetricValues(context.Background(), hpa, labels.Everything(),
				func(int, time.Duration) {})
		}
		plan := horizontalpodautoscaler.Decide(in)
		var written error
		if plan.Rescale && step.UpdateErr != "" {
			written = errors.New(step.UpdateErr)
		} else if plan.Rescale {
			replicas = plan.Desired
		}
		outcome := plan.Outcome(written)
		var events []string
		for _, e := range outcome.Events {
			events = append(events, e.Type+" "+e.Reason+": "+e.Message)
		}
		hpa.Status, in.History = outcome.Status, outcome.History
		out = append(out, w.Describe(&hpa.Status, replicas, events, start))
	}
	return out
}
