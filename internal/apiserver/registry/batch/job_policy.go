package batch

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

const (
	maxPodFailurePolicyRules = 20
	maxExitCodes             = 255
	maxPatternList           = 64 * 1024
)

func checkFailurePolicy(f *typed.Errors, s *batchv1.JobSpec, path *field.Path) {
	rules := path.Child("rules")
	if n := len(s.PodFailurePolicy.Rules); n > maxPodFailurePolicyRules {
		f.Add(field.TooMany(rules, n, maxPodFailurePolicyRules))
	}
	names := sets.New[string]()
	for _, c := range slices.Concat(s.Template.Spec.Containers, s.Template.Spec.InitContainers) {
		names.Insert(c.Name)
	}
	for i := range s.PodFailurePolicy.Rules {
		checkFailureRule(f, s, &s.PodFailurePolicy.Rules[i], rules.Index(i))
		if c := s.PodFailurePolicy.Rules[i].OnExitCodes; c != nil {
			checkExitCodes(f, c, rules.Index(i).Child("onExitCodes"), names)
		}
		checkPatterns(f, &s.PodFailurePolicy.Rules[i], rules.Index(i))
	}
}

func checkFailureRule(f *typed.Errors, s *batchv1.JobSpec, r *batchv1.PodFailurePolicyRule, path *field.Path) {
	known := []batchv1.PodFailurePolicyAction{
		batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
		batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore,
	}
	action := path.Child("action")
	switch r.Action {
	case "":
		f.Required(action, fmt.Sprintf("valid values: %q", known))
	case batchv1.PodFailurePolicyActionFailIndex:
		if s.BackoffLimitPerIndex == nil {
			f.Invalid(action, r.Action, "requires the backoffLimitPerIndex to be set")
		}
	default:
		typed.Supported(f, action, r.Action, known...)
	}
}

func checkExitCodes(f *typed.Errors, c *batchv1.PodFailurePolicyOnExitCodesRequirement, path *field.Path,
	names sets.Set[string]) {
	known := []batchv1.PodFailurePolicyOnExitCodesOperator{batchv1.PodFailurePolicyOnExitCodesOpIn,
		batchv1.PodFailurePolicyOnExitCodesOpNotIn}
	if c.Operator == "" {
		f.Required(path.Child("operator"), fmt.Sprintf("valid values: %q", known))
	} else {
		typed.Supported(f, path.Child("operator"), c.Operator, known...)
	}
	if n := c.ContainerName; n != nil && !names.Has(*n) {
		f.Invalid(path.Child("containerName"), *n,
			"must be one of the container or initContainer names in the pod template")
	}
	values := path.Child("values")
	switch n := len(c.Values); {
	case n == 0:
		f.Invalid(values, c.Values, "at least one value is required")
	case n > maxExitCodes:
		f.Add(field.TooMany(values, n, maxExitCodes))
	}
	seen := sets.New[int32]()
	for i, v := range c.Values {
		if c.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn && v == 0 {
			f.Invalid(values.Index(i), v, "must not be 0 for the In operator")
		}
		if seen.Has(v) {
			f.Add(field.Duplicate(values.Index(i), v))
		}
		seen.Insert(v)
	}
	if !slices.IsSorted(c.Values) {
		f.Invalid(values, c.Values, "must be ordered")
	}
}

func checkPatterns(f *typed.Errors, r *batchv1.PodFailurePolicyRule, path *field.Path) {
	list, at := r.OnPodConditions, path.Child("onPodConditions")
	known := []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
	if len(list) > maxPodFailurePolicyRules {
		f.Add(field.TooMany(at, len(list), maxPodFailurePolicyRules))
	}
	for i, p := range list {
		f.QualifiedName(at.Index(i).Child("type"), string(p.Type))
		if p.Status == "" {
			f.Required(at.Index(i).Child("status"), fmt.Sprintf("valid values: %q", known))
			continue
		}
		typed.Supported(f, at.Index(i).Child("status"), p.Status, known...)
	}
	switch codes := r.OnExitCodes != nil; {
	case codes && len(list) > 0:
		f.Invalid(path, field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported")
	case !codes && len(list) == 0:
		f.Invalid(path, field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required")
	}
}

func checkSuccessPolicy(f *typed.Errors, s *batchv1.JobSpec, path *field.Path) {
	rules, at := s.SuccessPolicy.Rules, path.Child("rules")
	if len(rules) == 0 {
		f.Required(at, "at least one rules must be specified when the successPolicy is specified")
	}
	if len(rules) > maxPodFailurePolicyRules {
		f.Add(field.TooMany(at, len(rules), maxPodFailurePolicyRules))
	}
	for i := range rules {
		checkSuccessRule(f, &rules[i], at.Index(i), typed.Deref(s.Completions))
	}
}

func checkSuccessRule(f *typed.Errors, r *batchv1.SuccessPolicyRule, path *field.Path, completions int32) {
	if r.SucceededCount == nil && r.SucceededIndexes == nil {
		f.Required(path, "at least one of succeededCount or succeededIndexes must be specified")
	}
	total := int32(0)
	if list := r.SucceededIndexes; list != nil {
		at := path.Child("succeededIndexes")
		if len(*list) > maxPatternList {
			f.Add(field.TooLong(at, *list, maxPatternList))
		}
		spans, err := parseIndexes(*list, completions)
		if err != nil {
			f.Invalid(at, *list, "error parsing succeededIndexes: "+err.Error())
		}
		total = size(spans)
	}
	n, at := r.SucceededCount, path.Child("succeededCount")
	if n == nil {
		return
	}
	f.NotNegative(at, int64(*n))
	if *n > completions {
		f.Invalid(at, *n, fmt.Sprintf("must be less than or equal to %d (the number of specified completions)",
			completions))
	}
	if r.SucceededIndexes != nil && *n > total {
		f.Invalid(at, *n,
			fmt.Sprintf("must be less than or equal to %d (the number of indexes in the specified succeededIndexes "+
				"field)", total))
	}
}
