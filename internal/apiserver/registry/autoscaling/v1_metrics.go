package autoscaling

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// metricsInUse is the target of a use in percent, or of an amount per Pod.
func metricsInUse(use *int32, amount *resource.Quantity) autoscalingv2.MetricTarget {
	if use != nil {
		return autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: use}
	}
	return autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: amount}
}

// currentMetricValues is the target of an amount, whole or per Pod.
func currentMetricValues(whole, average *resource.Quantity) autoscalingv2.MetricTarget {
	if average != nil {
		return autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: average}
	}
	return autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: whole}
}

func named(name string, selector *metav1.LabelSelector) autoscalingv2.MetricIdentifier {
	return autoscalingv2.MetricIdentifier{Name: name, Selector: selector}
}

func specFromV1(m *autoscalingv1.MetricSpec) autoscalingv2.MetricSpec {
	out := autoscalingv2.MetricSpec{Type: autoscalingv2.MetricSourceType(m.Type)}
	if o := m.Object; o != nil {
		out.Object = &autoscalingv2.ObjectMetricSource{
			DescribedObject: autoscalingv2.CrossVersionObjectReference(o.Target),
			Metric:          named(o.MetricName, o.Selector),
			Target:          currentMetricValues(&o.TargetValue, o.AverageValue),
		}
	}
	if p := m.Pods; p != nil {
		out.Pods = &autoscalingv2.PodsMetricSource{Metric: named(p.MetricName, p.Selector),
			Target: currentMetricValues(nil, &p.TargetAverageValue)}
	}
	if r := m.Resource; r != nil {
		out.Resource = &autoscalingv2.ResourceMetricSource{Name: r.Name,
			Target: metricsInUse(r.TargetAverageUtilization, r.TargetAverageValue)}
	}
	if r := m.ContainerResource; r != nil {
		out.ContainerResource = &autoscalingv2.ContainerResourceMetricSource{
			Name: r.Name, Container: r.Container, Target: metricsInUse(r.TargetAverageUtilization,
				r.TargetAverageValue),
		}
	}
	if e := m.External; e != nil {
		out.External = &autoscalingv2.ExternalMetricSource{Metric: named(e.MetricName, e.MetricSelector),
			Target: currentMetricValues(e.TargetValue, e.TargetAverageValue)}
	}
	return out
}

func specToV1(m *autoscalingv2.MetricSpec) autoscalingv1.MetricSpec {
	out := autoscalingv1.MetricSpec{Type: autoscalingv1.MetricSourceType(m.Type)}
	if o := m.Object; o != nil {
		out.Object = &autoscalingv1.ObjectMetricSource{
			Target: autoscalingv1.CrossVersionObjectReference(o.DescribedObject), MetricName: o.Metric.Name,
			Selector:    o.Metric.Selector,
			TargetValue: typed.Deref(o.Target.Value), AverageValue: o.Target.AverageValue,
		}
	}
	if p := m.Pods; p != nil {
		out.Pods = &autoscalingv1.PodsMetricSource{MetricName: p.Metric.Name, Selector: p.Metric.Selector,
			TargetAverageValue: typed.Deref(p.Target.AverageValue)}
	}
	if r := m.Resource; r != nil {
		out.Resource = &autoscalingv1.ResourceMetricSource{Name: r.Name,
			TargetAverageUtilization: r.Target.AverageUtilization, TargetAverageValue: r.Target.AverageValue}
	}
	if r := m.ContainerResource; r != nil {
		out.ContainerResource = &autoscalingv1.ContainerResourceMetricSource{
			Name: r.Name, Container: r.Container, TargetAverageUtilization: r.Target.AverageUtilization,
			TargetAverageValue: r.Target.AverageValue,
		}
	}
	if e := m.External; e != nil {
		out.External = &autoscalingv1.ExternalMetricSource{
			MetricName: e.Metric.Name, MetricSelector: e.Metric.Selector, TargetValue: e.Target.Value,
			TargetAverageValue: e.Target.AverageValue,
		}
	}
	return out
}

func statusFromV1(m *autoscalingv1.MetricStatus) autoscalingv2.MetricStatus {
	out := autoscalingv2.MetricStatus{Type: autoscalingv2.MetricSourceType(m.Type)}
	use := func(percent *int32, amount resource.Quantity) autoscalingv2.MetricValueStatus {
		return autoscalingv2.MetricValueStatus{AverageUtilization: percent, AverageValue: &amount}
	}
	if o := m.Object; o != nil {
		out.Object = &autoscalingv2.ObjectMetricStatus{
			DescribedObject: autoscalingv2.CrossVersionObjectReference(o.Target),
			Metric:          named(o.MetricName, o.Selector),
			Current:         autoscalingv2.MetricValueStatus{Value: &o.CurrentValue, AverageValue: o.AverageValue},
		}
	}
	if p := m.Pods; p != nil {
		out.Pods = &autoscalingv2.PodsMetricStatus{
			Metric:  named(p.MetricName, p.Selector),
			Current: autoscalingv2.MetricValueStatus{AverageValue: &p.CurrentAverageValue},
		}
	}
	if r := m.Resource; r != nil {
		out.Resource = &autoscalingv2.ResourceMetricStatus{Name: r.Name,
			Current: use(r.CurrentAverageUtilization, r.CurrentAverageValue)}
	}
	if r := m.ContainerResource; r != nil {
		out.ContainerResource = &autoscalingv2.ContainerResourceMetricStatus{
			Name: r.Name, Container: r.Container, Current: use(r.CurrentAverageUtilization, r.CurrentAverageValue),
		}
	}
	if e := m.External; e != nil {
		out.External = &autoscalingv2.ExternalMetricStatus{
			Metric:  named(e.MetricName, e.MetricSelector),
			Current: autoscalingv2.MetricValueStatus{Value: &e.CurrentValue, AverageValue: e.CurrentAverageValue},
		}
	}
	return out
}

func statusToV1(m *autoscalingv2.MetricStatus) autoscalingv1.MetricStatus {
	out := autoscalingv1.MetricStatus{Type: autoscalingv1.MetricSourceType(m.Type)}
	if o := m.Object; o != nil {
		out.Object = &autoscalingv1.ObjectMetricStatus{
			Target: autoscalingv1.CrossVersionObjectReference(o.DescribedObject), MetricName: o.Metric.Name,
			Selector:     o.Metric.Selector,
			CurrentValue: typed.Deref(o.Current.Value), AverageValue: o.Current.AverageValue,
		}
	}
	if p := m.Pods; p != nil {
		out.Pods = &autoscalingv1.PodsMetricStatus{MetricName: p.Metric.Name, Selector: p.Metric.Selector,
			CurrentAverageValue: typed.Deref(p.Current.AverageValue)}
	}
	if r := m.Resource; r != nil {
		out.Resource = &autoscalingv1.ResourceMetricStatus{
			Name: r.Name, CurrentAverageUtilization: r.Current.AverageUtilization,
			CurrentAverageValue: typed.Deref(r.Current.AverageValue),
		}
	}
	if r := m.ContainerResource; r != nil {
		out.ContainerResource = &autoscalingv1.ContainerResourceMetricStatus{
			Name: r.Name, Container: r.Container, CurrentAverageUtilization: r.Current.AverageUtilization,
			CurrentAverageValue: typed.Deref(r.Current.AverageValue),
		}
	}
	if e := m.External; e != nil {
		out.External = &autoscalingv1.ExternalMetricStatus{
			MetricName: e.Metric.Name, MetricSelector: e.Metric.Selector, CurrentValue: typed.Deref(e.Current.Value),
			CurrentAverageValue: e.Current.AverageValue,
		}
	}
	return out
}
