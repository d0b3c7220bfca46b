package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/test/wrappers"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// runningPod started ten minutes ago, has been ready since, and asks for 100m.
func runningPod(i int) *corev1.Pod {
	p := wrappers.MakePod().Namespace("n").Name(fmt.Sprint("web-", i)).
		Containers(corev1.Container{Name: "app", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}}).
		Phase(corev1.PodRunning).Obj()
	p.Status.StartTime = &metav1.Time{Time: t0.Add(-10 * time.Minute)}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.Time{Time: t0.Add(-9 * time.Minute)}}}
	return p
}

// input is an autoscaler of 1 to 10 replicas by cpu at 50 %, with one running Pod for each value.
func input(values ...int64) In {
	h := autoscaler("hpa", 1, 10)
	h.Spec.Metrics[0].Resource.Target.AverageUtilization = new(int32(50))
	n := int32(len(values))
	in := In{HPA: h, Options: controllerruntime.DefaultHorizontalPodAutoscaling(), Now: t0,
		Scale: &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n},
			Status: autoscalingv1.ScaleStatus{Replicas: n, Selector: "app=web"}}}
	samples := map[string]Sample{}
	for i, v := range values {
		p := runningPod(i)
		in.Pods = append(in.Pods, p)
		samples[p.Name] = Sample{v, t0.Add(-10 * time.Second), 30 * time.Second}
	}
	in.MetricValues = []MetricValue{{Pods: samples}}
	return in
}

// replicas is what is decided: that of the plan, or the current count if nothing is to be written.
func replicas(in In) int32 {
	p := Decide(in)
	if !p.Rescale {
		return in.Scale.Spec.Replicas
	}
	return p.Desired
}

// Pods whose samples do not count leave the decision to the others, without turning it round.
func TestPodsWithoutSamplesAreLeftOut(t *testing.T) {
	unready := func(p *corev1.Pod, started, changed time.Duration) {
		p.Status.StartTime.Time = t0.Add(-started)
		p.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse,
			LastTransitionTime: metav1.Time{Time: t0.Add(-changed)}}
	}
	for _, c := range []struct {
		name   string
		values []int64
		change func(*In)
		want   int32
	}{
		{"as aimed at", []int64{50, 50}, nil, 2},
		{"within the tolerance", []int64{54, 55}, nil, 2},
		{"above it", []int64{56, 56}, nil, 3},
		{"below", []int64{20, 20}, nil, 1},
		{"a missing one counts for nothing when up", []int64{100, 100, 0},
			func(in *In) { delete(in.MetricValues[0].Pods, "web-2") }, 4},
		{"and for all it asks for when down", []int64{10, 10, 0},
			func(in *In) { delete(in.MetricValues[0].Pods, "web-2") }, 3},
		{"a pending one counts for nothing when up", []int64{100, 100, 900},
			func(in *In) { in.Pods[2].Status.Phase = corev1.PodPending }, 4},
		{"and not at all when down", []int64{20, 20, 900},
			func(in *In) { in.Pods[2].Status.Phase = corev1.PodPending }, 1},
		{"a failed one does not", []int64{100, 100, 900},
			func(in *In) { in.Pods[2].Status.Phase = corev1.PodFailed }, 4},
		{"nor one that ends", []int64{100, 100, 900},
			func(in *In) { in.Pods[2].DeletionTimestamp = &metav1.Time{Time: t0} }, 4},
		{"one that starts and is unready", []int64{100, 100, 900},
			func(in *In) { unready(in.Pods[2], time.Minute, 50*time.Second) }, 4},
		{"one measured before it was ready", []int64{100, 100, 900}, func(in *In) {
			in.Pods[2].Status.StartTime.Time = t0.Add(-time.Minute)
			in.Pods[2].Status.Conditions[0].LastTransitionTime.Time = t0.Add(-39 * time.Second)
		}, 4},
		{"one measured since", []int64{100, 100, 100}, func(in *In) {
			in.Pods[2].Status.StartTime.Time = t0.Add(-time.Minute)
			in.Pods[2].Status.Conditions[0].LastTransitionTime.Time = t0.Add(-40 * time.Second)
		}, 6},
		{"one that was never ready", []int64{100, 100, 900},
			func(in *In) { unready(in.Pods[2], 10*time.Minute, 10*time.Minute-29*time.Second) }, 4},
		{"one that was ready once", []int64{100, 100, 100},
			func(in *In) { unready(in.Pods[2], 10*time.Minute, 10*time.Minute-31*time.Second) }, 6},
		{"one without a condition", []int64{100, 100, 900},
			func(in *In) { in.Pods[2].Status.Conditions = nil }, 4},
		{"readiness is of cpu alone", []int64{100, 100, 100}, func(in *In) {
			unready(in.Pods[2], time.Minute, time.Second)
			in.HPA.Spec.Metrics[0].Resource.Name = corev1.ResourceMemory
			for _, p := range in.Pods {
				p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("100m")
			}
		}, 6},
		{"a tolerance of its own", []int64{56, 56}, func(in *In) {
			in.HPA.Spec.Behavior = rules(0, 0)
			in.HPA.Spec.Behavior.ScaleUp.Tolerance = resource.NewMilliQuantity(200, resource.DecimalSI)
		}, 2},
		{"which is of one direction", []int64{44, 44}, func(in *In) {
			in.HPA.Spec.Behavior = rules(0, 0)
			in.HPA.Spec.Behavior.ScaleDown.Tolerance = resource.NewMilliQuantity(100, resource.DecimalSI)
			in.HPA.Spec.Behavior.ScaleUp.Tolerance = resource.NewMilliQuantity(900, resource.DecimalSI)
			in.Scale.Spec.Replicas = 3 // one has not come yet
		}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := input(c.values...)
			in.Options.DownscaleStabilization = 0
			if c.change != nil {
				c.change(&in)
			}
			in.History.Recommendations = []Recommendation{}
			if got := replicas(in); got != c.want {
				t.Errorf("got %d, want %d; events %v", got, c.want, Decide(in).Outcome(nil).Events)
			}
		})
	}
}

func condition(s autoscalingv2.HorizontalPodAutoscalerStatus,
	kind autoscalingv2.HorizontalPodAutoscalerConditionType) string {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

// The bounds of the spec count without any metric, a target at zero is left alone, and one that the
// autoscaler brought there comes back by a metric that needs no Pod.
func TestBoundsAndZero(t *testing.T) {
	external := func(in *In, value int64) {
		in.HPA.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType,
			External: &autoscalingv2.ExternalMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: "q"},
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType,
					Value: resource.NewQuantity(1, resource.DecimalSI)}}}}
		in.MetricValues = []MetricValue{{Values: []int64{value}}}
		in.HPA.Spec.MinReplicas = new(int32(0))
		in.Options.DownscaleStabilization = 0
	}
	byIt := func(in *In) {
		in.HPA.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{
			{Type: autoscalingv2.ScaledToZero, Status: corev1.ConditionTrue}}
	}
	for _, c := range []struct {
		name    string
		current int
		change  func(*In)
		want    int32
		figures bool
		zero    string // condition ScaledToZero
	}{
		{"above the maximum", 12, nil, 10, false, "False NotScaledToZero"},
		{"below the minimum", 2, func(in *In) { in.HPA.Spec.MinReplicas = new(int32(4)) }, 4, false,
			"False NotScaledToZero"},
		{"no minimum is one", 1, func(in *In) { in.HPA.Spec.MinReplicas = nil }, 1, true, ""},
		{"zero by somebody", 0, nil, 0, false, ""},
		{"to zero", 2, func(in *In) { external(in, 0) }, 0, true, "True ScaledToZero"},
		{"from zero", 0, func(in *In) { external(in, 2500); byIt(in) }, 3, true, "False NotScaledToZero"},
		{"zero stays without load", 0, func(in *In) { external(in, 0); byIt(in) }, 0, true, "True "},
		{"zero with a new minimum", 0,
			func(in *In) { external(in, 0); byIt(in); in.HPA.Spec.MinReplicas = new(int32(2)) }, 2, true,
			"False NotScaledToZero"},
		{"not from somebody's zero", 0, func(in *In) { external(in, 2500) }, 0, false, ""},
		{"not by cpu", 0, func(in *In) { byIt(in); in.HPA.Spec.MinReplicas = new(int32(0)) }, 0, false, "True "},
		{"not without the gate", 0, func(in *In) { external(in, 2500); byIt(in); in.Options.ScaleToZero = false }, 0,
			false, ""},
		{"the gate takes the condition away", 2, func(in *In) {
			byIt(in)
			in.HPA.Spec.MinReplicas, in.Options.ScaleToZero = new(int32(4)), false
		}, 4, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := input(make([]int64, c.current)...)
			for name := range in.MetricValues[0].Pods {
				in.MetricValues[0].Pods[name] = Sample{Value: 50, Timestamp: t0}
			}
			if c.change != nil {
				c.change(&in)
			}
			in.History.Recommendations = []Recommendation{}
			if got := in.NeedsFigures(); got != c.figures {
				t.Errorf("got figures needed %v, want %v", got, c.figures)
			}
			p := Decide(in)
			o := p.Outcome(nil)
			if got := replicas(in); got != c.want || o.Desired != c.want {
				t.Errorf("got %d, status %d; want %d; %v", got, o.Desired, c.want, o.Events)
			}
			if got := condition(o.Status, autoscalingv2.ScaledToZero); got != c.zero {
				t.Errorf("got ScaledToZero %q, want %q", got, c.zero)
			}
			if c.current == 0 && !c.figures && condition(o.Status, autoscalingv2.ScalingActive) !=
				"False ScalingDisabled" {
				t.Errorf("got ScalingActive %q, want False ScalingDisabled",
					condition(o.Status, autoscalingv2.ScalingActive))
			}
		})
	}
}

// The greatest proposal counts; one that failed holds the others back from scaling down alone.
func TestMetricsThatFail(t *testing.T) {
	for _, c := range []struct {
		name  string
		value int64
		fails []bool
		want  int32
		err   string
	}{
		{"up with one that fails", 100, []bool{false, true}, 4, "invalid metrics (1 invalid out of 2)"},
		{"not down with one that fails", 10, []bool{false, true}, 2, "invalid metrics (1 invalid out of 2)"},
		{"down with none", 10, []bool{false, false}, 1, ""},
		{"all fail", 100, []bool{true, true}, 2, "invalid metrics (2 invalid out of 2)"},
	} {
		in := input(c.value, c.value)
		in.Options.DownscaleStabilization = 0
		in.History.Recommendations = []Recommendation{}
		value, spec := in.MetricValues[0], in.HPA.Spec.Metrics[0]
		in.MetricValues, in.HPA.Spec.Metrics = nil, nil
		for _, fails := range c.fails {
			f := value
			if fails {
				f = MetricValue{Err: errors.New("no answer")}
			}
			in.MetricValues, in.HPA.Spec.Metrics = append(in.MetricValues, f), append(in.HPA.Spec.Metrics, spec)
		}
		p := Decide(in)
		o := p.Outcome(nil)
		if got := replicas(in); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
		if (o.Err != nil) != (c.err != "") || c.err != "" && !strings.Contains(o.Err.Error(), c.err) {
			t.Errorf("%s: got error %v, want %q", c.name, o.Err, c.err)
		}
		if c.err != "" && o.ErrorLabel != "internal" || c.err == "" && o.ErrorLabel != "none" {
			t.Errorf("%s: got error label %s", c.name, o.ErrorLabel)
		}
	}
}

// What is decided leaves the input as it was: the caches share it.
func TestDecideChangesNothing(t *testing.T) {
	in := input(100, 100)
	in.HPA.Spec.Behavior = rules(1, 1)
	in.HPA.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = nil
	in.History = History{Recommendations: []Recommendation{{1, t0.Add(-time.Hour)}},
		ScaleUps: []ScaleEvent{{1, t0.Add(-time.Hour)}}}
	before := in.HPA.DeepCopy()
	Decide(in).Outcome(nil)
	if got, want := in.HPA.String(), before.String(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if in.History.Recommendations[0].Replicas != 1 || !in.History.ScaleUps[0].At.Equal(t0.Add(-time.Hour)) ||
		len(in.MetricValues[0].Pods) != 2 {
		t.Errorf("got another history %+v", in.History)
	}
}

// Values without bounds end at the bounds of the spec.
func TestFiguresWithoutBounds(t *testing.T) {
	for _, values := range [][]int64{{math.MaxInt64}, {math.MaxInt64, math.MaxInt64}} {
		for _, target := range []autoscalingv2.MetricTarget{
			{Type: autoscalingv2.ValueMetricType, Value: resource.NewMilliQuantity(1, resource.DecimalSI)},
			{Type: autoscalingv2.AverageValueMetricType,
				AverageValue: resource.NewMilliQuantity(1, resource.DecimalSI)},
		} {
			in := input(50, 50)
			in.HPA.Spec.MaxReplicas = 3
			in.HPA.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType,
				External: &autoscalingv2.ExternalMetricSource{Target: target}}}
			in.MetricValues = []MetricValue{{Values: values}}
			if got := replicas(in); got != 3 {
				t.Errorf("%s of %v: got %d, want 3", target.Type, values, got)
			}
		}
	}
}

// Specs that the API refuses are errors, not panics.
func TestSpecsThatSayNothing(t *testing.T) {
	for _, m := range []autoscalingv2.MetricSpec{
		{}, {Type: "Other"}, {Type: autoscalingv2.ResourceMetricSourceType},
		{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{}},
		{Type: autoscalingv2.ContainerResourceMetricSourceType,
			ContainerResource: &autoscalingv2.ContainerResourceMetricSource{}},
		{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{}},
		{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{}},
		{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{}},
		{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Selector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "?"}}}},
			Target: autoscalingv2.MetricTarget{Value: resource.NewQuantity(1, resource.DecimalSI)}}},
	} {
		in := input(50, 50)
		in.HPA.Spec.Metrics = []autoscalingv2.MetricSpec{m}
		if o := Decide(in).Outcome(nil); o.Err == nil || o.Decided {
			t.Errorf("%+v: got no error", m)
		}
	}
}
