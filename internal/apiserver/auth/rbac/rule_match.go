package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// RuleAllows tells whether a rule covers a request.
func RuleAllows(r *rbacv1.PolicyRule, a authorizer.Attributes) bool {
	if !contains(r.Verbs, a.GetVerb(), rbacv1.VerbAll) {
		return false
	}
	if !a.IsResourceRequest() {
		return nonResourceURLMatches(r.NonResourceURLs, a.GetPath())
	}
	return contains(r.APIGroups, a.GetAPIGroup(), rbacv1.APIGroupAll) && resourceMatches(r.Resources, a.GetResource(),
		a.GetSubresource()) &&
		(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, a.GetName()))
}

func contains(list []string, want, all string) bool {
	for _, x := range list {
		if x == want || x == all {
			return true
		}
	}
	return false
}

// resourceMatches matches "pods", "pods/log", "*" (everything) and "*/log" (that subresource of
// everything).
func resourceMatches(list []string, resource, sub string) bool {
	full := resource
	if sub != "" {
		full += "/" + sub
	}
	for _, x := range list {
		if x == rbacv1.ResourceAll || x == full {
			return true
		}
		if sub != "" && len(x) == len(sub)+2 && strings.HasPrefix(x, "*/") && strings.HasSuffix(x, sub) {
			return true
		}
	}
	return false
}

// nonResourceURLMatches matches a path itself, and every path below one that ends in "*".
func nonResourceURLMatches(list []string, path string) bool {
	for _, x := range list {
		if x == rbacv1.NonResourceAll || x == path {
			return true
		}
		if strings.HasSuffix(x, "*") && strings.HasPrefix(path, strings.TrimRight(x, "*")) {
			return true
		}
	}
	return false
}
