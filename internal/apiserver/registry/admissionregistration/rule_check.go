package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

const wildcard = "*"

func checkRule(f *typed.Errors, r *admissionv1.RuleWithOperations, at *field.Path) {
	operations := at.Child("operations")
	validateWildcard(f, operations, r.Operations, "operations")
	for i, o := range r.Operations {
		typed.Supported(f, operations.Index(i), o, admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create,
			admissionv1.Delete, admissionv1.Update)
	}
	validateWildcard(f, at.Child("apiGroups"), r.APIGroups, "API groups")
	validateWildcard(f, at.Child("apiVersions"), r.APIVersions, "API versions")
	for i, v := range r.APIVersions {
		if v == "" {
			f.Required(at.Child("apiVersions").Index(i), "")
		}
	}
	if len(r.Resources) == 0 {
		f.Required(at.Child("resources"), "")
	}
	checkResources(f, r.Resources, at.Child("resources"))
	if s := r.Scope; s != nil {
		typed.Supported(f, at.Child("scope"), *s, admissionv1.AllScopes, admissionv1.ClusterScope,
			admissionv1.NamespacedScope)
	}
}

// validateWildcard wants a list that is not empty, and a star to stand alone.
func validateWildcard[T ~string](f *typed.Errors, at *field.Path, list []T, noun string) {
	if len(list) == 0 {
		f.Required(at, "")
	}
	if len(list) > 1 && slices.Contains(list, wildcard) {
		f.Invalid(at, list, "if '*' is present, must not specify other "+noun)
	}
}

// checkResources refuses what a star in the list says already.
func checkResources(f *typed.Errors, list []string, at *field.Path) {
	// resources with all subresources, subresources of all resources
	allOf, inAll := sets.New[string](), sets.New[string]()
	everything, single, plain := false, false, false
	for i, name := range list {
		if name == "" {
			f.Required(at.Index(i), "")
			continue
		}
		everything = everything || name == "*/*"
		resource, sub, nested := strings.Cut(name, "/")
		if !nested {
			single, plain = single || name == wildcard, plain || name != wildcard
			continue
		}
		if allOf.Has(resource) {
			f.Invalid(at.Index(i), name, fmt.Sprintf("if '%s/*' is present, must not specify %s", resource, name))
		}
		if inAll.Has(sub) {
			f.Invalid(at.Index(i), name, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, name))
		}
		if sub == wildcard {
			allOf.Insert(resource)
		}
		if resource == wildcard {
			inAll.Insert(sub)
		}
	}
	if len(list) > 1 && everything {
		f.Invalid(at, list, "if '*/*' is present, must not specify other resources")
	}
	if single && plain {
		f.Invalid(at, list, "if '*' is present, must not specify other resources without subresources")
	}
}

// checkMatch validates what a policy or a binding matches.
func checkMatch(f *typed.Errors, m *admissionv1.MatchResources, at *field.Path) {
	if m.MatchPolicy == nil {
		f.Required(at.Child("matchPolicy"), "")
	} else {
		typed.Supported(f, at.Child("matchPolicy"), *m.MatchPolicy, admissionv1.Equivalent, admissionv1.Exact)
	}
	if m.NamespaceSelector == nil {
		f.Required(at.Child("namespaceSelector"), "")
	}
	f.LabelSelector(at.Child("namespaceSelector"), m.NamespaceSelector)
	if m.ObjectSelector == nil {
		f.Required(at.Child("objectSelector"), "")
	}
	f.LabelSelector(at.Child("objectSelector"), m.ObjectSelector)
	for i := range m.ResourceRules {
		checkNamedRule(f, &m.ResourceRules[i], at.Child("resourceRules").Index(i))
	}
	for i := range m.ExcludeResourceRules {
		checkNamedRule(f, &m.ExcludeResourceRules[i], at.Child("excludeResourceRules").Index(i))
	}
}

func checkNamedRule(f *typed.Errors, r *admissionv1.NamedRuleWithOperations, at *field.Path) {
	seen := sets.New[string]()
	for i, n := range r.ResourceNames {
		p := at.Child("resourceNames").Index(i)
		f.InvalidEach(p, n, content.IsPathSegmentName(n))
		if seen.Has(n) {
			f.Add(field.Duplicate(p, n))
		}
		seen.Insert(n)
	}
	checkRule(f, &r.RuleWithOperations, at)
}
