package autoscaling

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// v1 has one target, the use of CPU. What else v2 can say travels in these annotations of v1
// objects.
const (
	metricsNote    = "autoscaling.alpha.kubernetes.io/metrics"
	currentNote    = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsNote = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorNote   = "autoscaling.alpha.kubernetes.io/behavior"
)

// autoscalersV1 is the row of v1: the same store, seen through AddV1's conversions.
func autoscalersV1(k resourcedef.Kind) resourcedef.Kind {
	k.Version = "v1"
	k.Types.Internal = schema.GroupKind{Group: k.Group, Kind: k.Kind}
	return k
}

// AddV1 tells a scheme how v1 and v2 become one another, and what v1 leaves open.
func AddV1(s *runtime.Scheme) error {
	type (
		v1  = autoscalingv1.HorizontalPodAutoscaler
		v1s = autoscalingv1.HorizontalPodAutoscalerList
		v2  = autoscalingv2.HorizontalPodAutoscaler
		v2s = autoscalingv2.HorizontalPodAutoscalerList
	)
	s.AddTypeDefaultingFunc(&v1{}, func(o any) { typed.SetDefault(&o.(*v1).Spec.MinReplicas, 1) })
	s.AddTypeDefaultingFunc(&v1s{}, func(o any) {
		for i := range o.(*v1s).Items {
			typed.SetDefault(&o.(*v1s).Items[i].Spec.MinReplicas, 1)
		}
	})
	for _, c := range []struct {
		from, to any
		fn       conversion.ConversionFunc
	}{
		{(*v1)(nil), (*v2)(nil), func(a, b any, _ conversion.Scope) error { return fromV1(a.(*v1), b.(*v2)) }},
		{(*v2)(nil), (*v1)(nil), func(a, b any, _ conversion.Scope) error { return toV1(a.(*v2), b.(*v1)) }},
		{(*v1s)(nil), (*v2s)(nil), func(a, b any, _ conversion.Scope) error {
			in, out := a.(*v1s), b.(*v2s)
			out.ListMeta, out.Items = in.ListMeta, make([]v2, len(in.Items))
			return each(in.Items, out.Items, fromV1)
		}},
		{(*v2s)(nil), (*v1s)(nil), func(a, b any, _ conversion.Scope) error {
			in, out := a.(*v2s), b.(*v1s)
			out.ListMeta, out.Items = in.ListMeta, make([]v1, len(in.Items))
			return each(in.Items, out.Items, toV1)
		}},
	} {
		if err := s.AddConversionFunc(c.from, c.to, c.fn); err != nil {
			return err
		}
	}
	return nil
}

func each[A, B any](in []A, out []B, f func(*A, *B) error) error {
	for i := range in {
		if err := f(&in[i], &out[i]); err != nil {
			return err
		}
	}
	return nil
}

func fromV1(in *autoscalingv1.HorizontalPodAutoscaler, out *autoscalingv2.HorizontalPodAutoscaler) error {
	spec, status := &in.Spec, &in.Status
	*out = autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: in.ObjectMeta,
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(spec.ScaleTargetRef),
			MinReplicas:    spec.MinReplicas, MaxReplicas: spec.MaxReplicas,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			ObservedGeneration: status.ObservedGeneration, LastScaleTime: status.LastScaleTime,
			CurrentReplicas: status.CurrentReplicas, DesiredReplicas: status.DesiredReplicas,
		},
	}
	n := v1Annotations{in: in.Annotations}
	var metrics []autoscalingv1.MetricSpec
	var current []autoscalingv1.MetricStatus
	n.read(metricsNote, &metrics)
	n.read(currentNote, &current)
	n.read(conditionsNote, &out.Status.Conditions)
	if n.read(behaviorNote, &out.Spec.Behavior); out.Spec.Behavior != nil &&
		*out.Spec.Behavior == (autoscalingv2.HorizontalPodAutoscalerBehavior{}) {
		out.Spec.Behavior = nil
	}
	for i := range metrics {
		out.Spec.Metrics = append(out.Spec.Metrics, specFromV1(&metrics[i]))
	}
	if use := spec.TargetCPUUtilizationPercentage; use != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, autoscalingv2.MetricSpec{
			Type:     autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: metricsInUse(use, nil)},
		})
	}
	for i := range current {
		out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, statusFromV1(&current[i]))
	}
	defaultMetrics(&out.Spec) // here and not later: who writes v1 owns the target
	if use := status.CurrentCPUUtilizationPercentage; use != nil && len(current) == 0 {
		out.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{Name: corev1.ResourceCPU,
				Current: autoscalingv2.MetricValueStatus{AverageUtilization: use}},
		}}
	}
	out.Annotations = n.rest()
	return nil
}

func toV1(in *autoscalingv2.HorizontalPodAutoscaler, out *autoscalingv1.HorizontalPodAutoscaler) error {
	spec, status := &in.Spec, &in.Status
	*out = autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: in.ObjectMeta,
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(spec.ScaleTargetRef),
			MinReplicas:    spec.MinReplicas, MaxReplicas: spec.MaxReplicas,
		},
		Status: autoscalingv1.HorizontalPodAutoscalerStatus{
			ObservedGeneration: status.ObservedGeneration, LastScaleTime: status.LastScaleTime,
			CurrentReplicas: status.CurrentReplicas, DesiredReplicas: status.DesiredReplicas,
		},
	}
	var others []autoscalingv1.MetricSpec
	for i := range spec.Metrics {
		m := &spec.Metrics[i]
		if m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil &&
			m.Resource.Name == corev1.ResourceCPU && m.Resource.Target.AverageUtilization != nil {
			out.Spec.TargetCPUUtilizationPercentage = m.Resource.Target.AverageUtilization
			continue
		}
		others = append(others, specToV1(m))
	}
	var current []autoscalingv1.MetricStatus
	for i := range status.CurrentMetrics {
		m := &status.CurrentMetrics[i]
		if m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil &&
			m.Resource.Name == corev1.ResourceCPU {
			out.Status.CurrentCPUUtilizationPercentage = m.Resource.Current.AverageUtilization
		}
		current = append(current, statusToV1(m))
	}
	n := v1Annotations{in: in.Annotations, out: (&v1Annotations{in: in.Annotations}).rest()}
	n.write(len(others) > 0, metricsNote, others)
	n.write(len(current) > 0, currentNote, current)
	n.write(len(status.Conditions) > 0, conditionsNote, status.Conditions)
	n.write(spec.Behavior != nil, behaviorNote, behaviorOf(spec.Behavior))
	out.Annotations = n.out
	return n.err
}

// behavior, scalingRules and scalingPolicy are v2's types as the annotation has them: upstream
// writes its internal type, whose names begin with capitals. They are read case-insensitively.
type behavior struct{ ScaleUp, ScaleDown *scalingRules }

type scalingRules struct {
	StabilizationWindowSeconds *int32
	SelectPolicy               *autoscalingv2.ScalingPolicySelect
	Policies                   []scalingPolicy
	Tolerance                  *resource.Quantity
}

type scalingPolicy struct {
	Type                 autoscalingv2.HPAScalingPolicyType
	Value, PeriodSeconds int32
}

func behaviorOf(b *autoscalingv2.HorizontalPodAutoscalerBehavior) *behavior {
	if b == nil {
		return nil
	}
	return &behavior{ScaleUp: rulesOf(b.ScaleUp), ScaleDown: rulesOf(b.ScaleDown)}
}

func rulesOf(r *autoscalingv2.HPAScalingRules) *scalingRules {
	if r == nil {
		return nil
	}
	out := &scalingRules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy,
		Tolerance: r.Tolerance}
	for _, p := range r.Policies {
		out.Policies = append(out.Policies, scalingPolicy{p.Type, p.Value, p.PeriodSeconds})
	}
	return out
}

// v1Annotations reads and writes the annotations that carry what v1 has no fields for.
type v1Annotations struct {
	in, out map[string]string
	err     error
}

// read decodes an annotation. One that is no JSON of this form says nothing, as upstream has it.
func (n *v1Annotations) read(key string, into any) {
	text, ok := n.in[key]
	if !ok {
		return
	}
	fresh := reflect.New(reflect.TypeOf(into).Elem())
	if json.Unmarshal([]byte(text), fresh.Interface()) == nil {
		reflect.ValueOf(into).Elem().Set(fresh.Elem())
	}
}

func (n *v1Annotations) write(needed bool, key string, value any) {
	if !needed || n.err != nil {
		return
	}
	raw, err := json.Marshal(value)
	if err != nil {
		n.err = fmt.Errorf("annotation %s: %w", key, err)
		return
	}
	if n.out == nil {
		n.out = map[string]string{}
	}
	n.out[key] = string(raw)
}

// rest are the annotations that are the client's own.
func (n *v1Annotations) rest() map[string]string {
	out := maps.Clone(n.in)
	for _, key := range []string{metricsNote, currentNote, conditionsNote, behaviorNote} {
		delete(out, key)
	}
	return out
}
