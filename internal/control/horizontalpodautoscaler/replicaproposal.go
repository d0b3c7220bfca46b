package horizontalpodautoscaler

import (
	"errors"
	"fmt"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// replicaCountProposal is what one metric asks for.
type replicaCountProposal struct {
	replicas int32
	metric   string // in the words of messages
	status   autoscalingv2.MetricStatus

	// err is nil or why there is no proposal; cause is it as event and condition say it.
	err, cause error
	reason     string // of that event and condition
}

// replicaCountProposals are those of all metrics.
type replicaCountProposals struct {
	best         replicaCountProposal // of the most replicas; -1 replicas if the metrics decide nothing
	statuses     []autoscalingv2.MetricStatus
	computations []Computation
	err          error // of the metrics without a proposal
}

// refuse returns a proposal that failed. wrap is how the sync's error begins, with an operand for
// the cause.
func refuse(reason, wrap string, cause error) replicaCountProposal {
	return replicaCountProposal{err: fmt.Errorf(wrap, cause), cause: cause, reason: reason}
}

// computeReplicasForMetrics asks each metric and sets ScalingActive. The greatest proposal counts;
// one that failed holds the others back from scaling down.
func (d *decision) computeReplicasForMetrics() replicaCountProposals {
	in := d.in
	if err := d.checkSelector(); err != nil {
		return replicaCountProposals{best: replicaCountProposal{replicas: -1}, err: err}
	}
	specs := in.HPA.Spec.Metrics
	out := replicaCountProposals{statuses: make([]autoscalingv2.MetricStatus, len(specs))}
	var failed []replicaCountProposal
	for i := range specs {
		var f MetricValue
		if i < len(in.MetricValues) {
			f = in.MetricValues[i]
		}
		p := in.computeReplicasForMetric(&specs[i], f)
		out.computations = append(out.computations, in.computation(specs[i].Type, p))
		if p.err != nil {
			d.warn(p.reason, p.cause.Error())
			failed = append(failed, p)
			continue
		}
		out.statuses[i] = p.status
		if out.best.replicas == 0 || p.replicas > out.best.replicas {
			out.best = p
		}
	}
	if len(failed) > 0 {
		out.err = fmt.Errorf("invalid metrics (%d invalid out of %d), first error is: %w", len(failed), len(specs),
			failed[0].err)
		if len(failed) == len(specs) || out.best.replicas < in.Scale.Spec.Replicas {
			d.set(autoscalingv2.ScalingActive, corev1.ConditionFalse, failed[0].reason,
				fmt.Sprintf("the HPA was unable to compute the replica count: %v", failed[0].cause))
			out.best = replicaCountProposal{replicas: -1}
			return out
		}
	}
	d.set(autoscalingv2.ScalingActive, corev1.ConditionTrue, "ValidMetricFound",
		"the HPA was able to successfully calculate a replica count from "+out.best.metric)
	return out
}

// checkSelector refuses a target without a usable selector, and Pods that another autoscaler
// selects too.
func (d *decision) checkSelector() error {
	in := d.in
	refuse := func(event, condition, text, message string) error {
		d.warn(event, text)
		d.set(autoscalingv2.ScalingActive, corev1.ConditionFalse, condition, message)
		return errors.New(text)
	}
	raw := in.Scale.Status.Selector
	if raw == "" {
		return refuse("SelectorRequired", "InvalidSelector", "selector is required",
			"the HPA target's scale is missing a selector")
	}
	if _, err := in.selector(); err != nil {
		text := fmt.Sprintf("couldn't convert selector into a corresponding internal selector object: %v", err)
		return refuse("InvalidSelector", "InvalidSelector", text, text)
	}
	if len(in.SelectedBy) > 1 {
		text := fmt.Sprintf("pods by selector %v are controlled by more than one HPA (e.g. [%s])", raw,
			strings.Join(in.SelectedBy[:2], " "))
		return refuse("AmbiguousSelector", "AmbiguousSelector", text, text)
	}
	return nil
}

func (in *In) computation(kind autoscalingv2.MetricSourceType, p replicaCountProposal) Computation {
	c := Computation{Type: kind, Action: none, Error: none}
	switch current := in.HPA.Status.CurrentReplicas; {
	case p.err != nil:
		c.Error = errorLabel(p.err)
	case p.replicas > current:
		c.Action = actionScaleUp
	case p.replicas < current:
		c.Action = actionScaleDown
	}
	return c
}

// computeReplicasForMetric turns one metric's value into replicas.
func (in *In) computeReplicasForMetric(spec *autoscalingv2.MetricSpec, f MetricValue) replicaCountProposal {
	switch {
	case spec.Type == autoscalingv2.ObjectMetricSourceType && spec.Object != nil:
		return in.byObject(spec.Object, f)
	case spec.Type == autoscalingv2.PodsMetricSourceType && spec.Pods != nil:
		return in.byPodsMetric(spec.Pods, f)
	case spec.Type == autoscalingv2.ResourceMetricSourceType && spec.Resource != nil:
		return in.byResource(spec.Resource, f)
	case spec.Type == autoscalingv2.ContainerResourceMetricSourceType && spec.ContainerResource != nil:
		return in.byContainerResource(spec.ContainerResource, f)
	case spec.Type == autoscalingv2.ExternalMetricSourceType && spec.External != nil:
		return in.byExternal(spec.External, f)
	}
	return refuse("InvalidMetricSourceType", "%w",
		fmt.Errorf("unknown metric source type %q%w", string(spec.Type), errInSpec))
}

func milli(n int64) *resource.Quantity { return resource.NewMilliQuantity(n, resource.DecimalSI) }

func (in *In) byObject(s *autoscalingv2.ObjectMetricSource, f MetricValue) replicaCountProposal {
	const reason, wrap = "FailedGetObjectMetric", "failed to get object metric value: %w"
	if _, err := metav1.LabelSelectorAsSelector(s.Metric.Selector); err != nil {
		return refuse(reason, wrap, err)
	}
	status := &autoscalingv2.ObjectMetricStatus{DescribedObject: s.DescribedObject, Metric: s.Metric}
	p := replicaCountProposal{status: autoscalingv2.MetricStatus{
		Type: autoscalingv2.ObjectMetricSourceType, Object: status}}
	value := s.Target.Type == autoscalingv2.ValueMetricType && s.Target.Value != nil
	average := s.Target.Type == autoscalingv2.AverageValueMetricType && s.Target.AverageValue != nil
	err := f.Err
	if err != nil {
		err = fmt.Errorf("unable to get metric %s on %s %s/%s: %w", s.Metric.Name, s.DescribedObject.Kind,
			in.HPA.Namespace, s.DescribedObject.Name, err)
	}
	switch {
	case value:
		if err == nil {
			p.replicas, err = in.byRatio(ratioOf(f.Value, &s.Target))
		}
		if err != nil {
			return refuse(reason, wrap, err)
		}
		status.Current.Value = milli(f.Value)
		p.metric = fmt.Sprintf("%s metric %s", s.DescribedObject.Kind, s.Metric.Name)
	case average && err != nil:
		failed := refuse(reason, wrap, err)
		failed.err = fmt.Errorf(wrap, fmt.Errorf("failed to get %s object metric: %w", s.Metric.Name, err))
		return failed
	case average:
		var each int64
		p.replicas, each = in.byAverage(f.Value, s.Target.AverageValue.MilliValue())
		status.Current.AverageValue = milli(each)
		p.metric = fmt.Sprintf("external metric %s(%+v)", s.Metric.Name, s.Metric.Selector) // as upstream says
	default:
		return refuse(reason, wrap,
			errors.New("invalid object metric source: neither a value target nor an average value target was set"))
	}
	return p
}

func (in *In) byPodsMetric(s *autoscalingv2.PodsMetricSource, f MetricValue) replicaCountProposal {
	const reason, wrap = "FailedGetPodsMetric", "failed to get pods metric value: %w"
	if _, err := metav1.LabelSelectorAsSelector(s.Metric.Selector); err != nil {
		return refuse(reason, wrap, err)
	}
	if f.Err != nil {
		return refuse(reason, wrap, fmt.Errorf("unable to get metric %s: %w", s.Metric.Name, f.Err))
	}
	replicas, used, err := in.byPods(f.Pods, "", func() (podTarget, error) {
		if s.Target.AverageValue == nil {
			return nil, errors.New("no average value target was set")
		}
		return averageTarget(s.Target.AverageValue.MilliValue()), nil
	})
	if err != nil {
		return refuse(reason, wrap, err)
	}
	return replicaCountProposal{replicas: replicas, metric: "pods metric " + s.Metric.Name,
		status: autoscalingv2.MetricStatus{
			Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricStatus{Metric: s.Metric,
				Current: autoscalingv2.MetricValueStatus{AverageValue: milli(used.average)}}}}
}

func (in *In) byResource(s *autoscalingv2.ResourceMetricSource, f MetricValue) replicaCountProposal {
	replicas, current, err := in.byUse(resourceMetric{name: s.Name, target: s.Target}, f)
	if err != nil {
		return refuse("FailedGetResourceMetric", "failed to get "+string(s.Name)+" resource metric value: %w", err)
	}
	kind := "resource"
	if s.Target.AverageValue == nil {
		kind = "resource utilization (percentage of request)"
	}
	return replicaCountProposal{replicas: replicas, metric: fmt.Sprintf("%s %s", s.Name, kind),
		status: autoscalingv2.MetricStatus{Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{Name: s.Name, Current: current}}}
}

func (in *In) byContainerResource(s *autoscalingv2.ContainerResourceMetricSource, f MetricValue) replicaCountProposal {
	replicas, current, err := in.byUse(resourceMetric{s.Name, s.Container, s.Target}, f)
	if err != nil {
		return refuse("FailedGetContainerResourceMetric",
			"failed to get "+s.Container+" container metric value: %w", err)
	}
	kind := "resource"
	if s.Target.AverageValue == nil {
		kind = "container resource utilization (percentage of request)"
	}
	return replicaCountProposal{replicas: replicas, metric: fmt.Sprintf("%s %s", s.Name, kind),
		status: autoscalingv2.MetricStatus{Type: autoscalingv2.ContainerResourceMetricSourceType,
			ContainerResource: &autoscalingv2.ContainerResourceMetricStatus{Name: s.Name, Container: s.Container,
				Current: current}}}
}

// resourceMetric is a resource of Pods or of one container of each.
type resourceMetric struct {
	name      corev1.ResourceName
	container string
	target    autoscalingv2.MetricTarget
}

// byUse decides by the use of a resource: its amount, or its percentage of the requests.
func (in *In) byUse(m resourceMetric, f MetricValue) (int32, autoscalingv2.MetricValueStatus, error) {
	var current autoscalingv2.MetricValueStatus
	kind := "utilization"
	switch {
	case m.target.AverageValue != nil:
		kind = "usage"
	case m.target.AverageUtilization == nil:
		return 0, current, errors.New("invalid resource metric source: neither an average utilization target nor an " +
			"average value (usage) target was set")
	}
	var replicas int32
	var used usage
	err := f.Err
	if err != nil {
		err = fmt.Errorf("unable to get metrics for resource %s: %w", m.name, err)
	} else {
		replicas, used, err = in.byPods(f.Pods, m.name, func() (podTarget, error) {
			if m.target.AverageValue != nil {
				return averageTarget(m.target.AverageValue.MilliValue()), nil
			}
			asked, err := requests(in.Pods, m.container, m.name)
			return utilizationTarget{*m.target.AverageUtilization, asked}, err
		})
	}
	if err != nil {
		return 0, current, fmt.Errorf("failed to get %s %s: %w", m.name, kind, err)
	}
	format := resource.DecimalSI
	if m.name == corev1.ResourceMemory {
		format = resource.BinarySI
	}
	current.AverageValue = resource.NewMilliQuantity(used.average, format)
	if m.target.AverageValue == nil {
		current.AverageUtilization = &used.percent
	}
	return replicas, current, nil
}

func (in *In) byExternal(s *autoscalingv2.ExternalMetricSource, f MetricValue) replicaCountProposal {
	const reason = "FailedGetExternalMetric"
	wrap := "failed to get " + s.Metric.Name + " external metric value: %w"
	_, err := metav1.LabelSelectorAsSelector(s.Metric.Selector)
	if err == nil && f.Err != nil {
		err = fmt.Errorf("unable to get external metric %s/%s/%+v: %w", in.HPA.Namespace, s.Metric.Name,
			s.Metric.Selector, f.Err)
	}
	fail := func(err error, format string) replicaCountProposal {
		p := refuse(reason, wrap, err)
		p.err = fmt.Errorf(wrap, fmt.Errorf(format, s.Metric.Name, err))
		return p
	}
	status := &autoscalingv2.ExternalMetricStatus{Metric: s.Metric}
	p := replicaCountProposal{metric: fmt.Sprintf("external metric %s(%+v)", s.Metric.Name, s.Metric.Selector),
		status: autoscalingv2.MetricStatus{Type: autoscalingv2.ExternalMetricSourceType, External: status}}
	total := sum(f.Values)
	switch {
	case s.Target.AverageValue != nil && err != nil:
		return fail(err, "failed to get %s external metric: %w")
	case s.Target.AverageValue != nil:
		var each int64
		p.replicas, each = in.byAverage(total, s.Target.AverageValue.MilliValue())
		status.Current.AverageValue = milli(each)
	case s.Target.Value != nil:
		if err == nil {
			p.replicas, err = in.byRatio(ratioOf(total, &s.Target))
		}
		if err != nil {
			return fail(err, "failed to get external metric %s: %w")
		}
		status.Current.Value = milli(total)
	default:
		return refuse(reason, wrap,
			errors.New("invalid external metric source: neither a value target nor an average value target was set"))
	}
	return p
}
