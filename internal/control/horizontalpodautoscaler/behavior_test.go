package horizontalpodautoscaler

import (
	"fmt"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// rules is a behaviour of at most so many Pods a minute up and down; 0: as many as there may be.
func rules(up, down int32) *autoscalingv2.HorizontalPodAutoscalerBehavior {
	one := func(n int32) *autoscalingv2.HPAScalingRules {
		if n == 0 {
			n = 1000
		}
		return &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(0)),
			SelectPolicy: new(autoscalingv2.MaxChangePolicySelect), Policies: []autoscalingv2.HPAScalingPolicy{
				{Type: autoscalingv2.PodsScalingPolicy, Value: n, PeriodSeconds: 60}}}
	}
	return &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: one(up), ScaleDown: one(down)}
}

// series decides each second value with the history of those before; the scale follows.
func series(t *testing.T, in In, every time.Duration, values ...int64) (got []int32) {
	t.Helper()
	for i, v := range values {
		next := input(make([]int64, in.Scale.Spec.Replicas)...)
		for name, s := range next.MetricValues[0].Pods {
			s.Value = v
			next.MetricValues[0].Pods[name] = s
		}
		in.Pods, in.MetricValues, in.Now = next.Pods, next.MetricValues, t0.Add(time.Duration(i)*every)
		p := Decide(in)
		o := p.Outcome(nil)
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		in.HPA.Status, in.History = o.Status, o.History
		if p.Rescale {
			in.Scale.Spec.Replicas, in.Scale.Status.Replicas = p.Desired, p.Desired
		}
		got = append(got, in.Scale.Spec.Replicas)
	}
	return got
}

// What was recommended within the window holds scaling down back, and policies bound each period.
func TestStepsAreBounded(t *testing.T) {
	for _, c := range []struct {
		name   string
		start  int
		set    func(*In)
		every  time.Duration
		values []int64
		want   []int32
	}{
		{"the window of the controller", 4, nil, 2 * time.Minute, []int64{5, 5, 5, 5}, []int32{4, 4, 4, 1}},
		{"twice the count, or four", 1, func(in *In) { in.HPA.Spec.MaxReplicas = 40 }, time.Minute,
			[]int64{500, 500, 500}, []int32{4, 8, 16}},
		{"Pods in a period up", 2, func(in *In) { in.HPA.Spec.Behavior = rules(2, 0) }, 30 * time.Second,
			[]int64{200, 200, 200, 200}, []int32{4, 4, 6, 6}},
		{"Pods in a period down", 9, func(in *In) { in.HPA.Spec.Behavior = rules(0, 3) }, 30 * time.Second,
			[]int64{1, 1, 1, 1}, []int32{6, 6, 3, 3}},
		{"percent up, rounded up", 3, func(in *In) {
			in.HPA.Spec.Behavior = rules(0, 0)
			in.HPA.Spec.Behavior.ScaleUp.Policies[0] = autoscalingv2.HPAScalingPolicy{
				Type: autoscalingv2.PercentScalingPolicy, Value: 10, PeriodSeconds: 60}
		}, time.Minute, []int64{200, 200}, []int32{4, 5}},
		{"percent down, rounded down", 9, func(in *In) {
			in.HPA.Spec.Behavior = rules(0, 0)
			in.HPA.Spec.Behavior.ScaleDown.Policies[0] = autoscalingv2.HPAScalingPolicy{
				Type: autoscalingv2.PercentScalingPolicy, Value: 50, PeriodSeconds: 60}
		}, time.Minute, []int64{1, 1}, []int32{4, 2}},
		{"the least of the policies", 2, func(in *In) {
			b := rules(1, 0)
			b.ScaleUp.Policies = append(b.ScaleUp.Policies, autoscalingv2.HPAScalingPolicy{
				Type: autoscalingv2.PodsScalingPolicy, Value: 5, PeriodSeconds: 60})
			b.ScaleUp.SelectPolicy = new(autoscalingv2.MinChangePolicySelect)
			in.HPA.Spec.Behavior = b
		}, time.Minute, []int64{500}, []int32{3}},
		{"the most of them", 2, func(in *In) {
			b := rules(1, 0)
			b.ScaleUp.Policies = append(b.ScaleUp.Policies, autoscalingv2.HPAScalingPolicy{
				Type: autoscalingv2.PodsScalingPolicy, Value: 5, PeriodSeconds: 60})
			in.HPA.Spec.Behavior = b
		}, time.Minute, []int64{500}, []int32{7}},
		{"none up", 2, func(in *In) {
			in.HPA.Spec.Behavior = rules(0, 0)
			in.HPA.Spec.Behavior.ScaleUp.SelectPolicy = new(autoscalingv2.DisabledPolicySelect)
		}, time.Minute, []int64{500, 1}, []int32{2, 1}},
		{"none down", 5, func(in *In) {
			in.HPA.Spec.Behavior = rules(0, 0)
			in.HPA.Spec.Behavior.ScaleDown.SelectPolicy = new(autoscalingv2.DisabledPolicySelect)
		}, time.Minute, []int64{1, 500}, []int32{5, 10}},
		{"a window up", 2, func(in *In) {
			in.HPA.Spec.Behavior = rules(0, 0)
			in.HPA.Spec.Behavior.ScaleUp.StabilizationWindowSeconds = new(int32(90))
		}, time.Minute, []int64{100, 100, 100}, []int32{2, 2, 4}},
		{"a window down", 4, func(in *In) {
			in.HPA.Spec.Behavior = rules(0, 0)
			in.HPA.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(90))
		}, time.Minute, []int64{25, 25, 25}, []int32{4, 4, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := input(make([]int64, c.start)...)
			if c.set != nil {
				c.set(&in)
			}
			if got := series(t, in, c.every, c.values...); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
