package quota

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
)

// evaluator implements quota.Evaluator for objects of kind T.
type evaluator[T runtime.Object] struct {
	resource schema.GroupResource
	list     generic.ListFuncByNamespace
	// operations are the subresources ("": none) and operations that may change an object's usage.
	operations map[string][]admission.Operation
	// counts reports whether a resource name concerns this kind.
	counts func(corev1.ResourceName) bool
	usage  func(T) corev1.ResourceList
	// scope reports whether an object is in a scope; nil if the kind has no scopes.
	scope func(corev1.ScopedResourceSelectorRequirement, T) (bool, error)
	// constraints refuses an object that does not specify a limited amount; nil: none required.
	constraints func([]corev1.ResourceName, T) error
}

var _ quota.Evaluator = &evaluator[*corev1.Pod]{}

func (e *evaluator[T]) of(o runtime.Object) (T, error) {
	t, ok := o.(T)
	if !ok {
		return t, fmt.Errorf("quota of %s: unexpected %T", e.resource, o)
	}
	return t, nil
}

// Constraints refuses an object that does not specify what a quota limits.
func (e *evaluator[T]) Constraints(required []corev1.ResourceName, o runtime.Object) error {
	t, err := e.of(o)
	if err != nil || e.constraints == nil {
		return err
	}
	return e.constraints(required, t)
}

// GroupResource returns the kind's resource.
func (e *evaluator[T]) GroupResource() schema.GroupResource { return e.resource }

// Handles reports whether a write may change usage.
func (e *evaluator[T]) Handles(a admission.Attributes) bool {
	return slices.Contains(e.operations[a.GetSubresource()], a.GetOperation())
}

// Matches reports whether a quota applies to the object.
func (e *evaluator[T]) Matches(q *corev1.ResourceQuota, o runtime.Object) (bool, error) {
	return generic.Matches(q, o, e.MatchingResources, e.inScope)
}

func (e *evaluator[T]) inScope(s corev1.ScopedResourceSelectorRequirement, o runtime.Object) (bool, error) {
	t, err := e.of(o)
	if err != nil || e.scope == nil {
		return false, err
	}
	return e.scope(s, t)
}

// MatchingScopes returns the scopes that the object is in.
func (e *evaluator[T]) MatchingScopes(o runtime.Object,
	scopes []corev1.ScopedResourceSelectorRequirement) ([]corev1.ScopedResourceSelectorRequirement, error) {
	out := []corev1.ScopedResourceSelectorRequirement{}
	for _, s := range scopes {
		in, err := e.inScope(s, o)
		if err != nil {
			return out, fmt.Errorf("scope %s: %w", s.ScopeName, err)
		}
		if in {
			out = append(out, s)
		}
	}
	return out, nil
}

// UncoveredQuotaScopes returns the limited scopes that no quota covers.
func (e *evaluator[T]) UncoveredQuotaScopes(
	limited, matched []corev1.ScopedResourceSelectorRequirement) ([]corev1.ScopedResourceSelectorRequirement, error) {
	out := []corev1.ScopedResourceSelectorRequirement{}
	for _, l := range limited {
		same := func(m corev1.ScopedResourceSelectorRequirement) bool { return apiequality.Semantic.DeepEqual(l, m) }
		if !slices.ContainsFunc(matched, same) {
			out = append(out, l)
		}
	}
	return out, nil
}

// MatchingResources returns the resource names that concern this kind.
func (e *evaluator[T]) MatchingResources(input []corev1.ResourceName) []corev1.ResourceName {
	out := []corev1.ResourceName{}
	for _, n := range input {
		if n == generic.ObjectCountQuotaResourceNameFor(e.resource) || e.counts(n) {
			out = append(out, n)
		}
	}
	return out
}

// Usage returns what an object uses.
func (e *evaluator[T]) Usage(o runtime.Object) (corev1.ResourceList, error) {
	t, err := e.of(o)
	if err != nil {
		return nil, err
	}
	return e.usage(t), nil
}

// UsageStats adds up what all objects of a namespace use.
func (e *evaluator[T]) UsageStats(o quota.UsageStatsOptions) (quota.UsageStats, error) {
	return generic.CalculateUsageStats(o, e.list, e.inScope, e.Usage)
}

// named reports whether a scope's selector matches a name, as of a priority class; an empty name
// only matches NotIn and DoesNotExist.
func named(s corev1.ScopedResourceSelectorRequirement, name string) (bool, error) {
	selector, err := metav1.LabelSelectorAsSelector(
		&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: string(s.ScopeName), Operator: metav1.LabelSelectorOperator(s.Operator), Values: s.Values,
		}}})
	if err != nil {
		return false, fmt.Errorf("scope %s: %w", s.ScopeName, err)
	}
	set := labels.Set{}
	if name != "" {
		set[string(s.ScopeName)] = name
	}
	return selector.Matches(set), nil
}
