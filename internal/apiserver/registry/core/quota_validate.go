package core

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

const scopeMismatchMessage = "unsupported scope applied to resource"

func validateQuota(q, old *v1.ResourceQuota) field.ErrorList {
	spec := field.NewPath("spec")
	errs := quotaList(q.Spec.Hard, spec.Child("hard"))
	errs = append(errs, quotaScopes(&q.Spec, spec.Child("scopes"))...)
	if q.Spec.ScopeSelector != nil {
		errs = append(errs, quotaSelector(&q.Spec, spec.Child("scopeSelector").Child("matchExpressions"))...)
	}
	if old != nil && !sets.New(q.Spec.Scopes...).Equal(sets.New(old.Spec.Scopes...)) {
		errs = append(errs, field.Invalid(spec.Child("scopes"), q.Spec.Scopes, "field is immutable"))
	}
	return errs
}

func validateQuotaStatus(q *v1.ResourceQuota) field.ErrorList {
	path := field.NewPath("status")
	return append(quotaList(q.Status.Hard, path.Child("hard")), quotaList(q.Status.Used, path.Child("used"))...)
}

func quotaList(list v1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, k := range podspec.SortedResources(list) {
		at := path.Key(string(k))
		errs = append(errs, podspec.ValidateResourceName(string(k), at)...)
		if !strings.Contains(string(k), "/") && !quotaResource(string(k)) {
			errs = append(errs, field.Invalid(at, string(k), "must be a standard resource for quota"))
		}
		errs = append(errs, podspec.ValidateQuantity(k, list[k], at)...)
	}
	return errs
}

// podResource are the compute resources that quotas with a scope count over Pods.
func podResource(k string) bool {
	switch k {
	case "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory":
		return true
	}
	return false
}

func quotaResource(k string) bool {
	switch k {
	case "ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage", "requests.storage", "pods",
		"resourcequotas", "services",
		"replicationcontrollers", "secrets", "persistentvolumeclaims", "configmaps", "services.nodeports",
		"services.loadbalancers":
		return true
	}
	return podResource(k) || strings.HasPrefix(k, v1.ResourceHugePagesPrefix) || strings.HasPrefix(k,
		v1.ResourceRequestsHugePagesPrefix)
}

func knownScope(s v1.ResourceQuotaScope) bool {
	switch s {
	case v1.ResourceQuotaScopeTerminating, v1.ResourceQuotaScopeNotTerminating, v1.ResourceQuotaScopeBestEffort,
		v1.ResourceQuotaScopeNotBestEffort,
		v1.ResourceQuotaScopePriorityClass, v1.ResourceQuotaScopeCrossNamespacePodAffinity,
		v1.ResourceQuotaScopeVolumeAttributesClass:
		return true
	}
	return false
}

// scopeFits says that a resource may be counted in a scope.
func scopeFits(s v1.ResourceQuotaScope, k string) bool {
	switch s {
	case v1.ResourceQuotaScopeBestEffort:
		return k == "pods"
	case v1.ResourceQuotaScopeVolumeAttributesClass:
		return k == "persistentvolumeclaims" || k == "requests.storage"
	}
	return k == "pods" || podResource(k)
}

func quotaScopes(s *v1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	has := map[v1.ResourceQuotaScope]bool{}
	for _, scope := range s.Scopes {
		if !knownScope(scope) {
			errs = append(errs, field.Invalid(path, s.Scopes, "unsupported scope"))
		}
		for _, k := range podspec.SortedResources(s.Hard) {
			if quotaResource(string(k)) && !scopeFits(scope, string(k)) {
				errs = append(errs, field.Invalid(path, s.Scopes, scopeMismatchMessage))
			}
		}
		has[scope] = true
	}
	return append(errs, conflictingScopes(has, s.Scopes, path)...)
}

func quotaSelector(s *v1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	has := map[v1.ResourceQuotaScope]bool{}
	for _, r := range s.ScopeSelector.MatchExpressions {
		if !knownScope(r.ScopeName) {
			errs = append(errs, field.Invalid(path.Child("scopeName"), r.ScopeName, "unsupported scope"))
		}
		for _, k := range podspec.SortedResources(s.Hard) {
			if quotaResource(string(k)) && !scopeFits(r.ScopeName, string(k)) {
				errs = append(errs, field.Invalid(path, typed.GoFields(s.ScopeSelector), scopeMismatchMessage))
			}
		}
		switch r.ScopeName {
		case v1.ResourceQuotaScopeBestEffort, v1.ResourceQuotaScopeNotBestEffort, v1.ResourceQuotaScopeTerminating,
			v1.ResourceQuotaScopeNotTerminating, v1.ResourceQuotaScopeCrossNamespacePodAffinity:
			if r.Operator != v1.ScopeSelectorOpExists {
				errs = append(errs, field.Invalid(path.Child("operator"), r.Operator,
					"must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "+
						"ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "+
						"ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"))
			}
		}
		switch r.Operator {
		case v1.ScopeSelectorOpIn, v1.ScopeSelectorOpNotIn:
			if len(r.Values) == 0 {
				errs = append(errs,
					field.Required(path.Child("values"),
						"must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"))
			}
		case v1.ScopeSelectorOpExists, v1.ScopeSelectorOpDoesNotExist:
			if len(r.Values) != 0 {
				errs = append(errs, field.Invalid(path.Child("values"), r.Values,
					"must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"))
			}
		default:
			errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
		}
		has[r.ScopeName] = true
	}
	return append(errs, conflictingScopes(has, s.Scopes, path)...)
}

// conflictingScopes refuses a scope beside its opposite.
func conflictingScopes(has map[v1.ResourceQuotaScope]bool, shown []v1.ResourceQuotaScope,
	path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, pair := range [][2]v1.ResourceQuotaScope{
		{v1.ResourceQuotaScopeBestEffort, v1.ResourceQuotaScopeNotBestEffort},
		{v1.ResourceQuotaScopeTerminating, v1.ResourceQuotaScopeNotTerminating},
	} {
		if has[pair[0]] && has[pair[1]] {
			errs = append(errs, field.Invalid(path, shown, "conflicting scopes"))
		}
	}
	return errs
}
