package autoscaling

import (
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// Longest looks back, in seconds.
const (
	maxStabilizationSeconds = 3600
	maxPeriodSeconds        = 1800
)

func check(h, _ *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	var f typed.Errors
	s, spec := &h.Spec, field.NewPath("spec")
	if s.MinReplicas != nil && s.MaxReplicas < *s.MinReplicas {
		f.Invalid(spec.Child("maxReplicas"), s.MaxReplicas, "must be greater than or equal to `minReplicas`")
	}
	checkReference(&f, &s.ScaleTargetRef, spec.Child("scaleTargetRef"), true)
	for i := range s.Metrics {
		checkMetric(&f, &s.Metrics[i], spec.Child("metrics").Index(i))
	}
	if s.MinReplicas != nil && *s.MinReplicas == 0 && !slices.ContainsFunc(s.Metrics, validateRange) {
		f.Forbidden(spec.Child("metrics"),
			"must specify at least one Object or External metric to support scaling to zero replicas")
	}
	if s.Behavior != nil {
		checkRules(&f, s.Behavior.ScaleUp, spec.Child("behavior", "scaleUp"))
		checkRules(&f, s.Behavior.ScaleDown, spec.Child("behavior", "scaleDown"))
	}
	if s.MinReplicas != nil {
		f.NotNegative(spec.Child("minReplicas"), int64(*s.MinReplicas))
	}
	switch {
	case s.MaxReplicas == 0:
		f.Required(spec.Child("maxReplicas"), "")
	default:
		f.AtLeast(spec.Child("maxReplicas"), int64(s.MaxReplicas), 1)
	}
	return f.List()
}

// validateRange says that a metric is there also when no Pod is.
func validateRange(m autoscalingv2.MetricSpec) bool {
	return m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
}

func checkStatus(h, _ *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	var f typed.Errors
	for i, c := range h.Status.Conditions {
		if n := c.ObservedGeneration; n != nil {
			f.NotNegative(field.NewPath("status", "conditions").Index(i).Child("observedGeneration"), *n)
		}
	}
	f.NotNegative(field.NewPath("status", "currentReplicas"), int64(h.Status.CurrentReplicas))
	f.NotNegative(field.NewPath("status", "desiredReplicas"), int64(h.Status.DesiredReplicas))
	return f.List()
}

func checkSegment(f *typed.Errors, at *field.Path, name string) {
	if name == "" {
		f.Required(at, "")
		return
	}
	f.InvalidEach(at, name, content.IsPathSegmentName(name))
}

// checkReference validates a reference; what is scaled needs a group, what is measured does not.
func checkReference(f *typed.Errors, r *autoscalingv2.CrossVersionObjectReference, at *field.Path, group bool) {
	checkSegment(f, at.Child("kind"), r.Kind)
	checkSegment(f, at.Child("name"), r.Name)
	switch gv, err := schema.ParseGroupVersion(r.APIVersion); {
	case err != nil:
		f.Invalid(at.Child("apiVersion"), r.APIVersion, err.Error())
	case group && gv.Group == "" && gv.Version != "v1": // ReplicationControllers are core
		f.Invalid(at.Child("apiVersion"), r.APIVersion, "apiVersion must specify API group")
	}
}

// source is one kind of metric: its field, whether it is there, and how it is validated.
type source struct {
	kind  autoscalingv2.MetricSourceType
	child string
	set   bool
	check func(*field.Path)
}

// sources are the kinds of metrics in the order in which upstream looks at them.
func sources(f *typed.Errors, m *autoscalingv2.MetricSpec) []source {
	return []source{
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil, func(p *field.Path) {
			checkReference(f, &m.Object.DescribedObject, p.Child("describedObject"), false)
			checkIdentifier(f, &m.Object.Metric, p.Child("metric"))
			checkTarget(f, &m.Object.Target, p.Child("target"))
			checkEither(f, &m.Object.Target, p.Child("target"), "must set either a target value or averageValue")
		}},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil, func(p *field.Path) {
			checkIdentifier(f, &m.External.Metric, p.Child("metric"))
			checkTarget(f, &m.External.Target, p.Child("target"))
			checkEither(f, &m.External.Target, p.Child("target"),
				"must set either a target value for metric or a per-pod target")
			if m.External.Target.Value != nil && m.External.Target.AverageValue != nil {
				f.Forbidden(p.Child("target", "value"),
					"may not set both a target value for metric and a per-pod target")
			}
		}},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil, func(p *field.Path) {
			checkIdentifier(f, &m.Pods.Metric, p.Child("metric"))
			checkTarget(f, &m.Pods.Target, p.Child("target"))
			if m.Pods.Target.AverageValue == nil {
				f.Required(p.Child("target", "averageValue"), "must specify a positive target averageValue")
			}
		}},
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil, func(p *field.Path) {
			if m.Resource.Name == "" {
				f.Required(p.Child("name"), "must specify a resource name")
			}
			checkUse(f, &m.Resource.Target, p.Child("target"))
		}},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil,
			func(p *field.Path) {
				c := m.ContainerResource
				if c.Name == "" {
					f.Required(p.Child("name"), "must specify a resource name")
				} else {
					f.Add(podspec.ValidateContainerResourceName(string(c.Name), p.Child("name"))...)
				}
				if c.Container == "" {
					f.Required(p.Child("container"), "must specify a container")
				} else {
					f.DNSLabel(p.Child("container"), c.Container)
				}
				checkUse(f, &c.Target, p.Child("target"))
			}},
	}
}

func checkMetric(f *typed.Errors, m *autoscalingv2.MetricSpec, at *field.Path) {
	all := sources(f, m)
	var kinds []autoscalingv2.MetricSourceType
	var present []source
	var want *source
	for i := range all {
		kinds = append(kinds, all[i].kind)
		if all[i].set {
			present = append(present, all[i])
		}
		if all[i].kind == m.Type {
			want = &all[i]
		}
	}
	slices.Sort(kinds)
	if m.Type == "" {
		f.Required(at.Child("type"), "must specify a metric source type")
	}
	if want == nil {
		f.Add(field.NotSupported(at.Child("type"), m.Type, kinds))
	}
	if len(present) > 0 {
		present[0].check(at.Child(present[0].child)) // the first alone, as upstream
	}
	switch {
	case want == nil:
		f.Add(field.NotSupported(at.Child("type"), m.Type, kinds)) // twice, as upstream
	case !want.set:
		f.Required(at.Child(want.child), "must populate information for the given metric source")
	}
	if len(present) == 1 {
		return
	}
	for _, p := range present {
		if want == nil || p.child != want.child {
			f.Forbidden(at.Child(p.child), "must populate the given metric source only")
		}
	}
}

func checkIdentifier(f *typed.Errors, m *autoscalingv2.MetricIdentifier, at *field.Path) {
	if m.Name == "" {
		f.Required(at.Child("name"), "must specify a metric name")
	} else {
		f.InvalidEach(at.Child("name"), m.Name, content.IsPathSegmentName(m.Name))
	}
}

func checkEither(f *typed.Errors, t *autoscalingv2.MetricTarget, at *field.Path, detail string) {
	if t.Value == nil && t.AverageValue == nil {
		f.Required(at.Child("averageValue"), detail)
	}
}

func checkUse(f *typed.Errors, t *autoscalingv2.MetricTarget, path *field.Path) {
	checkTarget(f, t, path)
	switch use, value := t.AverageUtilization != nil, t.AverageValue != nil; {
	case !use && !value:
		f.Required(path.Child("averageUtilization"), "must set either a target raw value or a target utilization")
	case use && value:
		f.Forbidden(path.Child("averageValue"), "may not set both a target raw value and a target utilization")
	}
}

func checkTarget(f *typed.Errors, t *autoscalingv2.MetricTarget, at *field.Path) {
	if t.Type == "" {
		f.Required(at.Child("type"), "must specify a metric target type")
	}
	switch t.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	default:
		f.Invalid(at.Child("type"), t.Type, "must be either Utilization, Value, or AverageValue")
	}
	for _, q := range []struct {
		child string
		value *resource.Quantity
	}{{"value", t.Value}, {"averageValue", t.AverageValue}} {
		if q.value != nil && q.value.Sign() != 1 {
			f.Invalid(at.Child(q.child), q.value, "must be positive")
		}
	}
	if n := t.AverageUtilization; n != nil && *n < 1 {
		f.Invalid(at.Child("averageUtilization"), *n, "must be greater than 0")
	}
}

func checkRules(f *typed.Errors, r *autoscalingv2.HPAScalingRules, at *field.Path) {
	if r == nil {
		return
	}
	window := at.Child("stabilizationWindowSeconds")
	if n := r.StabilizationWindowSeconds; n != nil && *n < 0 {
		f.Invalid(window, *n, "must be greater than or equal to zero")
	} else if n != nil && *n > maxStabilizationSeconds {
		f.Invalid(window, *n, "must be less than or equal to 3600")
	}
	if p := r.SelectPolicy; p != nil {
		typed.Supported(f, at.Child("selectPolicy"), *p, autoscalingv2.DisabledPolicySelect,
			autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect)
	}
	policies := at.Child("policies")
	if len(r.Policies) == 0 {
		f.Required(policies, "must specify at least one Policy")
	}
	for i, p := range r.Policies {
		path := policies.Index(i)
		typed.Supported(f, path.Child("type"), p.Type, autoscalingv2.PercentScalingPolicy,
			autoscalingv2.PodsScalingPolicy)
		if p.Value <= 0 {
			f.Invalid(path.Child("value"), p.Value, "must be greater than zero")
		}
		if p.PeriodSeconds <= 0 {
			f.Invalid(path.Child("periodSeconds"), p.PeriodSeconds, "must be greater than zero")
		} else if p.PeriodSeconds > maxPeriodSeconds {
			f.Invalid(path.Child("periodSeconds"), p.PeriodSeconds, "must be less than or equal to 1800")
		}
	}
	if q := r.Tolerance; q != nil && q.Sign() < 0 {
		f.Invalid(at.Child("tolerance"), q.String(), "must be greater than or equal to 0")
	}
}
