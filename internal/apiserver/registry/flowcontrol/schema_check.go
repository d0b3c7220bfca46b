package flowcontrol

import (
	"fmt"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func checkSchema(s, _ *flowcontrolv1.FlowSchema) field.ErrorList {
	var f typed.Errors
	checkPrecedence(&f, s)
	if m := s.Spec.DistinguisherMethod; m != nil {
		switch m.Type {
		case flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType:
		default: // the whole method is shown
			f.Add(field.NotSupported(spec().Child("distinguisherMethod", "type"), typed.GoFields(m),
				[]flowcontrolv1.FlowDistinguisherMethodType{
					flowcontrolv1.FlowDistinguisherMethodByNamespaceType,
					flowcontrolv1.FlowDistinguisherMethodByUserType,
				}))
		}
	}
	at := spec().Child("priorityLevelConfiguration", "name")
	if name := s.Spec.PriorityLevelConfiguration.Name; name == "" {
		f.Required(at, "must reference a priority level")
	} else {
		f.InvalidEach(at, name, apivalidation.NameIsDNSSubdomain(name, false))
	}
	for i := range s.Spec.Rules {
		checkRule(&f, &s.Spec.Rules[i], spec().Child("rules").Index(i))
	}
	for _, m := range bootstrap.MandatoryFlowSchemas {
		if m.Name == s.Name && !apiequality.Semantic.DeepEqual(m.Spec, s.Spec) {
			f.Invalid(spec(), typed.GoFields(s.Spec), fmt.Sprintf("spec of '%s' must equal the fixed value", s.Name))
		}
	}
	return f.List()
}

func checkPrecedence(f *typed.Errors, s *flowcontrolv1.FlowSchema) {
	at, n := spec().Child("matchingPrecedence"), s.Spec.MatchingPrecedence
	if n <= 0 {
		f.Invalid(at, n, "must be a positive value")
	}
	f.NotGreater(at, n, flowcontrolv1.FlowSchemaMaxMatchingPrecedence,
		fmt.Sprintf("must not be greater than %v", flowcontrolv1.FlowSchemaMaxMatchingPrecedence))
	if n == 1 && s.Name != flowcontrolv1.FlowSchemaNameExempt {
		f.Invalid(at, n, "only the schema named 'exempt' may have matchingPrecedence 1")
	}
}

func checkRule(f *typed.Errors, r *flowcontrolv1.PolicyRulesWithSubjects, p *field.Path) {
	if len(r.Subjects) == 0 {
		f.Required(p.Child("subjects"), "subjects must contain at least one value")
	}
	for i := range r.Subjects {
		checkSubject(f, &r.Subjects[i], p.Child("subjects").Index(i))
	}
	if len(r.ResourceRules) == 0 && len(r.NonResourceRules) == 0 {
		f.Required(p, "at least one of resourceRules and nonResourceRules has to be non-empty")
	}
	for i := range r.ResourceRules {
		checkResourceRule(f, &r.ResourceRules[i], p.Child("resourceRules").Index(i))
	}
	for i := range r.NonResourceRules {
		x, at := &r.NonResourceRules[i], p.Child("nonResourceRules").Index(i)
		checkVerbs(f, x.Verbs, at.Child("verbs"))
		validateWildcardAlone(f, x.NonResourceURLs, at.Child("nonResourceURLs"),
			listMessages{"nonResourceURLs must contain at least one value",
				"if '*' is present, must not specify other non-resource URLs"})
		for k, url := range x.NonResourceURLs {
			if slices.Contains(x.NonResourceURLs, "*") {
				break
			}
			checkURL(f, url, at.Child("nonResourceURLs").Index(k))
		}
	}
}

// checkSubject wants the one part that belongs to its kind.
func checkSubject(f *typed.Errors, s *flowcontrolv1.Subject, p *field.Path) {
	parts := []struct {
		kind  flowcontrolv1.SubjectKind
		child string
		set   bool
	}{
		{flowcontrolv1.SubjectKindServiceAccount, "serviceAccount", s.ServiceAccount != nil},
		{flowcontrolv1.SubjectKindUser, "user", s.User != nil},
		{flowcontrolv1.SubjectKindGroup, "group", s.Group != nil},
	}
	kinds := []flowcontrolv1.SubjectKind{flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount,
		flowcontrolv1.SubjectKindUser}
	if !slices.Contains(kinds, s.Kind) {
		typed.Supported(f, p.Child("kind"), s.Kind, kinds...)
		return
	}
	for _, x := range parts {
		switch {
		case x.kind == s.Kind && !x.set:
			f.Required(p.Child(x.child), fmt.Sprintf("%s is required when subject kind is '%s'", x.child, x.kind))
		case x.kind != s.Kind && x.set:
			f.Forbidden(p.Child(x.child), fmt.Sprintf("%s is forbidden when subject kind is not '%s'", x.child, x.kind))
		}
	}
	switch {
	case s.Kind == flowcontrolv1.SubjectKindUser && s.User != nil && s.User.Name == "":
		f.Required(p.Child("user", "name"), "")
	case s.Kind == flowcontrolv1.SubjectKindGroup && s.Group != nil && s.Group.Name == "":
		f.Required(p.Child("group", "name"), "")
	case s.Kind == flowcontrolv1.SubjectKindServiceAccount && s.ServiceAccount != nil:
		a, at := s.ServiceAccount, p.Child("serviceAccount")
		if a.Name == "" {
			f.Required(at.Child("name"), "")
		} else if a.Name != flowcontrolv1.NameAll {
			f.InvalidEach(at.Child("name"), a.Name, apivalidation.ValidateServiceAccountName(a.Name, false))
		}
		if a.Namespace == "" {
			f.Required(at.Child("namespace"), "must specify namespace for service account")
		} else {
			f.InvalidEach(at.Child("namespace"), a.Namespace, apivalidation.ValidateNamespaceName(a.Namespace, false))
		}
	}
}

func checkResourceRule(f *typed.Errors, r *flowcontrolv1.ResourcePolicyRule, p *field.Path) {
	checkVerbs(f, r.Verbs, p.Child("verbs"))
	validateWildcardAlone(f, r.APIGroups, p.Child("apiGroups"),
		listMessages{"resource rules must supply at least one api group",
			"if '*' is present, must not specify other api groups"})
	validateWildcardAlone(f, r.Resources, p.Child("resources"),
		listMessages{"resource rules must supply at least one resource",
			"if '*' is present, must not specify other resources"})
	at := p.Child("namespaces")
	if len(r.Namespaces) == 0 {
		if !r.ClusterScope {
			f.Required(at, "resource rules that are not cluster scoped must supply at least one namespace")
		}
		return
	}
	if slices.Contains(r.Namespaces, flowcontrolv1.NamespaceEvery) {
		validateWildcardAlone(f, r.Namespaces, at,
			listMessages{"", "if '*' is present, must not specify other namespaces"})
		return
	}
	for i, n := range r.Namespaces {
		for _, m := range apivalidation.ValidateNamespaceName(n, false) {
			f.Invalid(at.Index(i), n, "each member of this list must be '*' or a DNS-1123 label; "+m)
		}
	}
}

func verbs() []string {
	return []string{"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"}
}

func checkVerbs(f *typed.Errors, list []string, p *field.Path) {
	validateWildcardAlone(f, list, p, listMessages{"verbs must contain at least one value",
		"if '*' is present, must not specify other verbs"})
	if !slices.Contains(list, "*") && !sets.New(verbs()...).HasAll(list...) {
		f.Add(field.NotSupported(p, list, verbs()))
	}
}

// listMessages are the two things that can be wrong with a list: that it is empty, and that
// everything is not alone in it.
type listMessages struct{ empty, others string }

func validateWildcardAlone(f *typed.Errors, list []string, p *field.Path, t listMessages) {
	switch {
	case len(list) == 0:
		f.Required(p, t.empty)
	case len(list) > 1 && slices.Contains(list, "*"):
		f.Invalid(p, list, t.others)
	}
}

func checkURL(f *typed.Errors, url string, p *field.Path) {
	switch {
	case url == "":
		f.Invalid(p, url, "must not be empty")
	case url == "/":
	case !strings.HasPrefix(url, "/"):
		f.Invalid(p, url, "must start with slash")
	case strings.Contains(url, " "):
		f.Invalid(p, url, "must not contain white-space")
	case strings.Contains(url, "//"):
		f.Invalid(p, url, "must not contain double slash")
	case strings.Contains(strings.TrimSuffix(url, "/*"), "*"):
		f.Invalid(p, url, "wildcard can only do suffix matching")
	}
}

func checkSchemaStatus(s, _ *flowcontrolv1.FlowSchema) field.ErrorList {
	return checkConditionTypes(s.Status.Conditions,
		func(c flowcontrolv1.FlowSchemaCondition) string { return string(c.Type) })
}
