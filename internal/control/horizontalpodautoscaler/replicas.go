package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"maps"
	"math"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/gantry-project/gantry/internal/pod"
)

var (
	errNoPods  = errors.New("no pods returned by selector while calculating replica count")
	errNoReady = errors.New("did not receive metrics for targeted pods (pods might be unready)")
)

// toInt32 converts within the range of int32; what is not a number is 0.
func toInt32(f float64) int32 {
	switch {
	case math.IsNaN(f):
		return 0
	case f >= math.MaxInt32:
		return math.MaxInt32
	case f <= math.MinInt32:
		return math.MinInt32
	}
	return int32(f)
}

func ceil(f float64) int32 { return toInt32(math.Ceil(f)) }

// tolerance is how far the ratio of usage to target may be from 1 without a change.
type tolerance struct{ down, up float64 }

// tolerance returns that of the spec, or the controller's.
func (in *In) tolerance() tolerance {
	t := tolerance{in.Options.Tolerance, in.Options.Tolerance}
	b := in.HPA.Spec.Behavior
	if b != nil && b.ScaleDown != nil && b.ScaleDown.Tolerance != nil {
		t.down = b.ScaleDown.Tolerance.AsApproximateFloat64()
	}
	if b != nil && b.ScaleUp != nil && b.ScaleUp.Tolerance != nil {
		t.up = b.ScaleUp.Tolerance.AsApproximateFloat64()
	}
	return t
}

func (t tolerance) covers(ratio float64) bool { return 1-t.down <= ratio && ratio <= 1+t.up }

// groups are Pods by what their samples are worth.
type groups struct {
	ready                     int
	unready, missing, ignored []string
}

// group groups Pods: failed and ending ones are ignored, those that run without a sample are
// missing, pending ones are unready, and so are, for cpu, those that still start up.
func (in *In) group(samples map[string]Sample, resource corev1.ResourceName) (g groups) {
	for _, p := range in.Pods {
		s, measured := samples[p.Name]
		switch {
		case p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed:
			g.ignored = append(g.ignored, p.Name)
		case p.Status.Phase == corev1.PodPending:
			g.unready = append(g.unready, p.Name)
		case !measured:
			g.missing = append(g.missing, p.Name)
		case resource == corev1.ResourceCPU && in.startsUp(p, s):
			g.unready = append(g.unready, p.Name)
		default:
			g.ready++
		}
	}
	return g
}

// startsUp tells whether a Pod's cpu sample is of its start: within the initialization period while
// it is unready or was measured before it became ready, later while it has never been ready.
func (in *In) startsUp(p *corev1.Pod, s Sample) bool {
	ready := pod.ReadyCondition(p)
	if ready == nil || p.Status.StartTime == nil {
		return true
	}
	start, unready := p.Status.StartTime.Time, ready.Status == corev1.ConditionFalse
	if start.Add(in.Options.CPUInitializationPeriod).After(in.Now) {
		return unready || s.Timestamp.Before(ready.LastTransitionTime.Add(s.Window))
	}
	return unready && start.Add(in.Options.InitialReadinessDelay).After(ready.LastTransitionTime.Time)
}

// usage is what a metric amounts to.
type usage struct {
	average int64 // in thousandths per Pod
	percent int32 // of the requests
}

// podTarget is a target for values of Pods.
type podTarget interface {
	// ratio returns usage by target, and the usage.
	ratio(samples map[string]Sample) (float64, usage, error)
	// usageWithoutSample is what a Pod without a sample counts for when there is less usage than
	// aimed at.
	usageWithoutSample(pod string) int64
}

// byPods returns the replicas that samples of Pods ask for (upstream:
// ReplicaCalculator.GetResourceReplicas, replica_calculator.go). target is asked for after the Pods
// were looked at, as its error comes later.
func (in *In) byPods(samples map[string]Sample, resource corev1.ResourceName,
	target func() (podTarget, error)) (int32, usage, error) {
	if len(in.Pods) == 0 {
		return 0, usage{}, errNoPods
	}
	samples = maps.Clone(samples)
	g := in.group(samples, resource)
	for _, name := range append(g.ignored, g.unready...) {
		delete(samples, name)
	}
	if len(samples) == 0 {
		return 0, usage{}, errNoReady
	}
	t, err := target()
	if err != nil {
		return 0, usage{}, err
	}
	ratio, used, err := t.ratio(samples)
	if err != nil {
		return 0, usage{}, err
	}
	current, covered := in.Scale.Spec.Replicas, in.tolerance()
	fillUnready := len(g.unready) > 0 && ratio > 1
	if !fillUnready && len(g.missing) == 0 {
		if covered.covers(ratio) {
			return current, used, nil
		}
		return ceil(ratio * float64(g.ready)), used, nil
	}
	for _, name := range g.missing {
		switch {
		case ratio < 1:
			samples[name] = Sample{Value: t.usageWithoutSample(name)}
		case ratio > 1:
			samples[name] = Sample{}
		}
	}
	if fillUnready {
		for _, name := range g.unready {
			samples[name] = Sample{}
		}
	}
	again, _, err := t.ratio(samples)
	if err != nil {
		return 0, usage{}, err
	}
	replicas := ceil(again * float64(len(samples)))
	if covered.covers(again) || ratio < 1 && again > 1 || ratio > 1 && again < 1 ||
		again < 1 && replicas > current || again > 1 && replicas < current {
		return current, used, nil // the guesses must not turn the direction round
	}
	return replicas, used, nil
}

// averageTarget is a value per Pod, in thousandths.
type averageTarget int64

func (t averageTarget) ratio(samples map[string]Sample) (float64, usage, error) {
	var sum int64
	for _, s := range samples {
		sum += s.Value
	}
	average := sum / int64(len(samples))
	return float64(average) / float64(t), usage{average: average}, nil
}

func (t averageTarget) usageWithoutSample(string) int64 { return int64(t) }

// utilizationTarget is a percentage of what each Pod requests, in thousandths.
type utilizationTarget struct {
	percent  int32
	requests map[string]int64
}

func (t utilizationTarget) ratio(samples map[string]Sample) (float64, usage, error) {
	var used, requested, n int64
	for name, s := range samples {
		if request, ok := t.requests[name]; ok {
			used, requested, n = used+s.Value, requested+request, n+1
		}
	}
	if requested == 0 {
		return 0, usage{}, errors.New("no metrics returned matched known pods")
	}
	percent := int32(used * 100 / requested)
	return float64(percent) / float64(t.percent), usage{average: used / n, percent: percent}, nil
}

func (t utilizationTarget) usageWithoutSample(pod string) int64 {
	return t.requests[pod] * int64(max(100, t.percent)) / 100
}

// requests returns what each Pod, or one container of it, requests, in thousandths. A Pod that
// requests nothing is an error.
func requests(pods []*corev1.Pod, container string, resource corev1.ResourceName) (map[string]int64, error) {
	out := make(map[string]int64, len(pods))
	for _, p := range pods {
		if container == "" && resourcehelper.IsPodLevelRequestsSet(p) {
			requests := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})
			q, ok := requests[resource]
			if !ok {
				return nil, fmt.Errorf("missing pod-level request for %s in Pod %s", resource, p.Name)
			}
			out[p.Name] = q.MilliValue()
			continue
		}
		found := container == ""
		for _, c := range lastingContainers(p) {
			if container != "" && c.Name != container {
				continue
			}
			q, ok := c.Resources.Requests[resource]
			if !ok {
				return nil, fmt.Errorf("missing request for %s in container %s of Pod %s", resource, c.Name, p.Name)
			}
			found = true
			out[p.Name] += q.MilliValue()
		}
		if !found {
			return nil, fmt.Errorf("container %s not found in Pod %s", container, p.Name)
		}
	}
	return out, nil
}

// lastingContainers are the containers that run as long as the Pod.
func lastingContainers(p *corev1.Pod) []corev1.Container {
	out := append([]corev1.Container(nil), p.Spec.Containers...)
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; pod.IsSidecar(c) {
			out = append(out, *c)
		}
	}
	return out
}

// byRatio returns the replicas that a value of the whole target asks for: so many times the ready
// Pods. From zero the ratio itself is the count.
func (in *In) byRatio(ratio float64) (int32, error) {
	current := in.Scale.Spec.Replicas
	switch {
	case current == 0:
		return ceil(ratio), nil
	case in.tolerance().covers(ratio):
		return current, nil
	case len(in.Pods) == 0:
		return 0, fmt.Errorf("unable to calculate ready pods: %w", errNoPods)
	}
	ready := 0
	for _, p := range in.Pods {
		if p.Status.Phase == corev1.PodRunning && pod.IsReady(p) {
			ready++
		}
	}
	return ceil(ratio * float64(ready)), nil
}

// byAverage returns the replicas that share a value so that each has its target, and the average
// now; with no replica that is the whole value.
func (in *In) byAverage(value, target int64) (replicas int32, average int64) {
	replicas = in.Scale.Status.Replicas
	ratio := float64(value) / (float64(target) * float64(replicas))
	average = value
	if replicas != 0 && value != math.MaxInt64 {
		average = int64(math.Ceil(float64(value) / float64(replicas)))
	}
	if !in.tolerance().covers(ratio) {
		replicas = ceil(float64(value) / float64(target))
	}
	return replicas, average
}

// sum adds values, at most to the greatest int64.
func sum(values []int64) (total int64) {
	for _, v := range values {
		if v > 0 && total > math.MaxInt64-v {
			return math.MaxInt64
		}
		total += v
	}
	return total
}

// ratioOf is value by target, both in thousandths.
func ratioOf(value int64, target *autoscalingv2.MetricTarget) float64 {
	return float64(value) / float64(target.Value.MilliValue())
}
