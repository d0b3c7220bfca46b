package autoscalers

import (
	"fmt"
	"math/rand/v2"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Random makes a series of so many steps from a seed.
func Random(seed uint64, steps int) Series {
	r := &source{rand.New(rand.NewPCG(seed, 1))}
	s := Series{Seed: seed, Period: pick(r, 5, 15, 15, 30), Replicas: int32(pick(r, 0, 1, 2, 3, 3, 5, 8, 12)),
		Options: Options{Downscale: pick(r, 0, 30, 60, 300), CPUInitialization: pick(r, 0, 120, 300),
			ReadinessDelay: pick(r, 10, 30), Tolerance: pick(r, 0.1, 0.1, 0, 0.3), ScaleToZero: !r.oneIn(5)}}
	spec := r.spec()
	for i := range steps {
		step := Step{Age: pick(r, 0, 10, 40), Window: pick(r, 15, 30, 60)}
		switch {
		case i > 0 && r.oneIn(6):
			b := spec.Behavior
			spec = r.spec()
			spec.Behavior = b // a policy that changes keeps events that it would have dropped
			fallthrough
		case i == 0:
			step.Spec = spec.DeepCopy()
		}
		if i > 0 && r.oneIn(6) {
			n := int32(pick(r, 0, 1, 2, 4, 7, 11))
			step.Set = &n
		}
		step.Lag = int32(pick(r, 0, 0, 0, 1, 2))
		r.errors(&step)
		for range r.IntN(4) + 1 {
			step.Pods = append(step.Pods, r.pod())
		}
		r.values(&step, spec)
		s.Steps = append(s.Steps, step)
	}
	return s
}

type source struct{ *rand.Rand }

func (r *source) oneIn(in int) bool { return r.IntN(in) == 0 }

func pick[T any](r *source, of ...T) T { return of[r.IntN(len(of))] }

func (r *source) errors(s *Step) {
	if r.oneIn(25) {
		s.ScaleErr = "no scale"
	}
	if r.oneIn(15) {
		s.UpdateErr = pick(r, "exceeded quota", "no")
	}
	if r.oneIn(25) {
		bad := pick(r, "", "a in", "=,")
		s.Selector = &bad
	}
	if r.oneIn(12) {
		s.ResourceErr = "resource metrics are out"
	}
	if r.oneIn(12) {
		s.CustomErr = "custom metrics are out"
	}
	if r.oneIn(12) {
		s.ExternalErr = "external metrics are out"
	}
}

func (r *source) pod() Pod {
	p := Pod{Phase: pick(r, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning,
		corev1.PodPending, corev1.PodFailed, corev1.PodSucceeded),
		Ready: pick(r, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse,
			corev1.ConditionUnknown, ""),
		Started: pick(r, 600, 600, 200, 100, 20, 5, -1), Ends: r.oneIn(15),
		App: pick[int64](r, 100, 200, 250, 1000), Side: pick[int64](r, 50, 100)}
	p.ReadySet = max(0, p.Started-pick(r, 0, 5, 15, 50))
	if r.oneIn(3) {
		p.ReadySet = pick(r, 1, 30)
	}
	if r.oneIn(25) {
		p.Side = 0
	}
	if r.oneIn(8) {
		p.Whole = pick[int64](r, 150, 400)
	}
	return p
}

// values makes values for what the spec measures, around the target.
func (r *source) values(s *Step, spec *autoscalingv2.HorizontalPodAutoscalerSpec) {
	level := pick(r, 0, 0.2, 0.5, 0.85, 1, 1.08, 1.3, 2, 5)
	s.Values = map[string][]int64{}
	list := func(aim int64, missing int) (out []int64) {
		for range r.IntN(4) + 1 {
			v := int64(level * float64(aim) * (0.7 + 0.6*r.Float64()))
			if missing > 0 && r.oneIn(missing) {
				v = Missing
			}
			out = append(out, v)
		}
		return out
	}
	s.Values["cpu"], s.Values["memory"] = list(100, 8), list(100, 8)
	for _, m := range spec.Metrics {
		switch {
		case m.Pods != nil:
			s.Values[m.Pods.Metric.Name] = list(m.Pods.Target.AverageValue.MilliValue(), 8)
		case m.Object != nil && !r.oneIn(12):
			s.Values[m.Object.Metric.Name] = list(aim(&m.Object.Target), 0)[:1]
		case m.External != nil && !r.oneIn(12):
			s.Values[m.External.Metric.Name] = list(aim(&m.External.Target), 0)
		}
	}
}

func aim(t *autoscalingv2.MetricTarget) int64 {
	if t.Value != nil {
		return t.Value.MilliValue()
	}
	return t.AverageValue.MilliValue()
}

func (r *source) spec() *autoscalingv2.HorizontalPodAutoscalerSpec {
	s := &autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: int32(pick(r, 3, 6, 10, 40)),
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment",
			Name: Target}}
	zero := false
	for i := range pick(r, 1, 1, 1, 2, 3) {
		m := r.metric(i)
		zero = zero || m.Object != nil || m.External != nil
		s.Metrics = append(s.Metrics, m)
	}
	if n := int32(pick(r, 0, 1, 1, 2, 3)); n > 0 || zero {
		s.MinReplicas = &n
	}
	if r.oneIn(2) {
		s.Behavior = r.behavior()
	}
	return s
}

func (r *source) metric(i int) autoscalingv2.MetricSpec {
	id := autoscalingv2.MetricIdentifier{Name: fmt.Sprintf("m%d", i)}
	if r.oneIn(3) {
		id.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	}
	resourceName := pick(r, corev1.ResourceCPU, corev1.ResourceCPU, corev1.ResourceMemory)
	use := autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType}
	percent := int32(pick(r, 50, 80, 120))
	use.AverageUtilization = &percent
	if r.oneIn(3) {
		use = autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType,
			AverageValue: resource.NewMilliQuantity(pick[int64](r, 100, 150), resource.DecimalSI)}
		if resourceName == corev1.ResourceMemory {
			use.AverageValue = resource.NewQuantity(pick[int64](r, 100<<20, 150<<20), resource.BinarySI)
		}
	}
	value := autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType,
		Value: resource.NewMilliQuantity(pick[int64](r, 300, 10000, 2500), resource.DecimalSI)}
	average := autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType,
		AverageValue: resource.NewMilliQuantity(pick[int64](r, 300, 10000, 2500), resource.DecimalSI)}
	whole := pick(r, value, average)
	switch r.IntN(5) {
	case 0:
		return autoscalingv2.MetricSpec{Type: autoscalingv2.ContainerResourceMetricSourceType,
			ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: resourceName,
				Container: pick(r, container, container, "side", "other"), Target: use}}
	case 1:
		return autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType,
			Pods: &autoscalingv2.PodsMetricSource{Metric: id, Target: average}}
	case 2:
		return autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType,
			Object: &autoscalingv2.ObjectMetricSource{Metric: id, Target: whole,
				DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "v1",
					Kind: pick(r, "Service", "Namespace"), Name: "x"}}}
	case 3:
		return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType,
			External: &autoscalingv2.ExternalMetricSource{Metric: id, Target: whole}}
	}
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{Name: resourceName, Target: use}}
}

func (r *source) behavior() *autoscalingv2.HorizontalPodAutoscalerBehavior {
	rules := func() *autoscalingv2.HPAScalingRules {
		x := &autoscalingv2.HPAScalingRules{}
		selected := pick(r, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MaxChangePolicySelect,
			autoscalingv2.MinChangePolicySelect, autoscalingv2.DisabledPolicySelect)
		window := int32(pick(r, 0, 0, 15, 60, 300))
		x.SelectPolicy, x.StabilizationWindowSeconds = &selected, &window
		for range r.IntN(2) + 1 {
			p := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: int32(r.IntN(4) + 1),
				PeriodSeconds: int32(pick(r, 15, 30, 60))}
			if r.oneIn(2) {
				p.Type, p.Value = autoscalingv2.PercentScalingPolicy, int32(pick(r, 10, 50, 100, 300))
			}
			x.Policies = append(x.Policies, p)
		}
		if r.oneIn(4) {
			x.Tolerance = resource.NewMilliQuantity(pick[int64](r, 0, 50, 200), resource.DecimalSI)
		}
		return x
	}
	b := &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(), ScaleDown: rules()}
	if r.oneIn(2) {
		b.ScaleDown.StabilizationWindowSeconds = nil // the controller's
	}
	return b
}
