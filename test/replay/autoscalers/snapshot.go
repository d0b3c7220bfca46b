package autoscalers

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/custom_metrics"
	"k8s.io/metrics/pkg/client/external_metrics"

	"github.com/gantry-project/gantry/internal/control/horizontalpodautoscaler"
)

// Names of the objects of every series.
const (
	Namespace = "ns"
	Name      = "hpa"
	Target    = "web"
	selector  = "app=web"
	container = "app"
)

// Snapshot is what a controller finds at Now: a step with so many replicas of the target.
type Snapshot struct {
	Step     *Step
	Replicas int32
	Now      time.Time
}

// Scale is the target's scale.
func (w *Snapshot) Scale() *autoscalingv1.Scale {
	s := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Target}}
	s.Spec.Replicas = w.Replicas
	s.Status.Replicas, s.Status.Selector = w.running(), selector
	if w.Step.Selector != nil {
		s.Status.Selector = *w.Step.Selector
	}
	return s
}

func (w *Snapshot) running() int32 { return max(0, w.Replicas-w.Step.Lag) }

func (w *Snapshot) before(seconds int) *metav1.Time {
	return &metav1.Time{Time: w.Now.Add(-time.Duration(seconds) * time.Second)}
}

// Pods are those of the target.
func (w *Snapshot) Pods() []*corev1.Pod {
	var out []*corev1.Pod
	for i := range int(w.running()) {
		if len(w.Step.Pods) == 0 {
			break
		}
		x := w.Step.Pods[i%len(w.Step.Pods)]
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: podName(i),
			Labels: map[string]string{"app": "web"}}}
		p.Status.Phase = x.Phase
		if x.Started >= 0 {
			p.Status.StartTime = w.before(x.Started)
		}
		if x.Ready != "" {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: x.Ready,
				LastTransitionTime: *w.before(x.ReadySet)}}
		}
		if x.Ends {
			p.DeletionTimestamp = w.before(1)
		}
		p.Spec.Containers = []corev1.Container{{Name: container, Resources: request(x.App)},
			{Name: "side", Resources: request(x.Side)}}
		if x.Whole > 0 {
			whole := request(x.Whole)
			p.Spec.Resources = &whole
		}
		out = append(out, p)
	}
	return out
}

func podName(i int) string { return fmt.Sprintf("web-%d", i) }

// request asks for so much cpu, and as much memory in MiB.
func request(n int64) (r corev1.ResourceRequirements) {
	if n > 0 {
		r.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(n, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(n<<20, resource.BinarySI)}
	}
	return r
}

// Clients answer from the snapshot.
func (w *Snapshot) Clients() horizontalpodautoscaler.Clients {
	return horizontalpodautoscaler.Clients{Resource: podMetrics{snapshot: w}, Custom: custom{w}, External: external{w}}
}

type podMetrics struct {
	resourceclient.PodMetricsInterface
	snapshot *Snapshot
}

// PodMetricses implements resourceclient.PodMetricsesGetter.
func (p podMetrics) PodMetricses(string) resourceclient.PodMetricsInterface { return p }

// List answers with the values of cpu and memory; a Pod has none if its cpu is missing.
func (p podMetrics) List(context.Context, metav1.ListOptions) (*metricsv1beta1.PodMetricsList, error) {
	w := p.snapshot
	if w.Step.ResourceErr != "" {
		return nil, errors.New(w.Step.ResourceErr)
	}
	out := &metricsv1beta1.PodMetricsList{}
	cpu, memory := w.Step.Values["cpu"], w.Step.Values["memory"]
	for i := range int(w.running()) {
		if len(cpu) == 0 || cpu[i%len(cpu)] == Missing {
			continue
		}
		use := corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(cpu[i%len(cpu)], resource.DecimalSI)}
		if m := memory[i%len(memory)]; m != Missing {
			use[corev1.ResourceMemory] = *resource.NewQuantity(m<<20, resource.BinarySI)
		}
		out.Items = append(out.Items, metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace,
			Name: podName(i)}, Timestamp: *w.before(w.Step.Age),
			Window: metav1.Duration{Duration: time.Duration(w.Step.Window) * time.Second},
			Containers: []metricsv1beta1.ContainerMetrics{{Name: container, Usage: use},
				{Name: "side", Usage: use}}})
	}
	return out, nil
}

type custom struct{ snapshot *Snapshot }

// RootScopedMetrics implements custom_metrics.CustomMetricsClient.
func (c custom) RootScopedMetrics() custom_metrics.MetricsInterface { return c }

// NamespacedMetrics implements custom_metrics.CustomMetricsClient.
func (c custom) NamespacedMetrics(string) custom_metrics.MetricsInterface { return c }

// GetForObject implements custom_metrics.MetricsInterface.
func (c custom) GetForObject(_ schema.GroupKind, _, metric string,
	_ labels.Selector) (*customv1beta2.MetricValue, error) {
	values := c.snapshot.Step.Values[metric]
	if c.snapshot.Step.CustomErr != "" || len(values) == 0 {
		return nil, errors.New("no answer: " + c.snapshot.Step.CustomErr)
	}
	return &customv1beta2.MetricValue{Timestamp: *c.snapshot.before(c.snapshot.Step.Age),
		Value: *resource.NewMilliQuantity(values[0], resource.DecimalSI)}, nil
}

// GetForObjects implements custom_metrics.MetricsInterface.
func (c custom) GetForObjects(_ schema.GroupKind, _ labels.Selector, metric string,
	_ labels.Selector) (*customv1beta2.MetricValueList, error) {
	w := c.snapshot
	if w.Step.CustomErr != "" {
		return nil, errors.New(w.Step.CustomErr)
	}
	out, values := &customv1beta2.MetricValueList{}, w.Step.Values[metric]
	for i := range int(w.running()) {
		if len(values) == 0 || values[i%len(values)] == Missing {
			continue
		}
		out.Items = append(out.Items, customv1beta2.MetricValue{Timestamp: *w.before(w.Step.Age),
			DescribedObject: corev1.ObjectReference{Kind: "Pod", Name: podName(i)},
			Value:           *resource.NewMilliQuantity(values[i%len(values)], resource.DecimalSI)})
	}
	return out, nil
}

type external struct{ snapshot *Snapshot }

// NamespacedMetrics implements external_metrics.ExternalMetricsClient.
func (e external) NamespacedMetrics(string) external_metrics.MetricsInterface { return e }

// List implements external_metrics.MetricsInterface.
func (e external) List(metric string, _ labels.Selector) (*externalv1beta1.ExternalMetricValueList, error) {
	if e.snapshot.Step.ExternalErr != "" {
		return nil, errors.New(e.snapshot.Step.ExternalErr)
	}
	out := &externalv1beta1.ExternalMetricValueList{}
	for _, v := range e.snapshot.Step.Values[metric] {
		out.Items = append(out.Items, externalv1beta1.ExternalMetricValue{MetricName: metric,
			Timestamp: *e.snapshot.before(e.snapshot.Step.Age), Value: *resource.NewMilliQuantity(v,
				resource.DecimalSI)})
	}
	return out, nil
}

// Describe says what was decided; replicas is the size of the target afterwards, start the time of
// the first step. Averages over no replica are left out, as upstream divides by zero, and the first
// of several Pods at fault has no name, as upstream takes any.
func (w *Snapshot) Describe(s *autoscalingv2.HorizontalPodAutoscalerStatus, replicas int32, events []string,
	start time.Time) Want {
	out := Want{Replicas: replicas, Current: s.CurrentReplicas, Desired: s.DesiredReplicas, Scaled: -1}
	for _, e := range events {
		out.Events = append(out.Events, anyPod.ReplaceAllString(e, "web-?"))
	}
	second := func(t time.Time) int { return int(t.Sub(start) / time.Second) }
	if s.LastScaleTime != nil {
		out.Scaled = second(s.LastScaleTime.Time)
	}
	for _, c := range s.Conditions {
		out.Conditions = append(out.Conditions, fmt.Sprintf("%s=%s %d %s: %s", c.Type, c.Status,
			second(c.LastTransitionTime.Time), c.Reason, anyPod.ReplaceAllString(c.Message, "web-?")))
	}
	var metrics []string
	for _, m := range s.CurrentMetrics {
		metrics = append(metrics, describeMetric(m, w.running() > 0 && w.Step.ScaleErr == ""))
	}
	out.Metrics = strings.Join(metrics, "; ")
	return out
}

var anyPod = regexp.MustCompile(`\bweb-\d+`)

func describeMetric(m autoscalingv2.MetricStatus, divisible bool) string {
	name, current := "", autoscalingv2.MetricValueStatus{}
	switch {
	case m.Resource != nil:
		name, current = string(m.Resource.Name), m.Resource.Current
	case m.ContainerResource != nil:
		name, current = m.ContainerResource.Container+" "+string(m.ContainerResource.Name), m.ContainerResource.Current
	case m.Pods != nil:
		name, current = m.Pods.Metric.Name, m.Pods.Current
	case m.Object != nil:
		name, current = m.Object.DescribedObject.Kind+" "+m.Object.Metric.Name, m.Object.Current
	case m.External != nil:
		name, current = m.External.Metric.Name, m.External.Current
	}
	out := string(m.Type) + " " + name
	if q := current.Value; q != nil {
		out += " value " + q.String()
	}
	if q := current.AverageValue; q != nil && (divisible || m.Object == nil && m.External == nil) {
		out += " average " + q.String()
	}
	if n := current.AverageUtilization; n != nil {
		out += " " + strconv.Itoa(int(*n)) + "%"
	}
	return out
}
