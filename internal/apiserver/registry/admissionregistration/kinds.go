// Package admissionregistration holds the rows of admissionregistration.k8s.io/v1: webhook
// configurations, admission policies and their bindings.
//
// The admission library takes defaults for granted (a missing selector matches nothing), and runs
// expressions that were compiled before: both are seen to here, when such an object is written. In:
// nothing. Out: rows for apiserver.Kinds, with v1.37's defaults, checks and columns.
package admissionregistration

import (
	"context"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// Kinds are the rows of this package.
func Kinds() []resourcedef.Kind {
	x := newCompilers()
	kinds := []resourcedef.Kind{mutatingWebhooks(x), validatingWebhooks(x), validatingPolicies(x), validatingBindings(),
		mutatingPolicies(x), mutatingBindings()}
	for i := range kinds {
		r := &kinds[i].Rules
		validate := r.Validate
		r.Validate = func(ctx context.Context, o runtime.Object) field.ErrorList {
			return append(validate(ctx, o), checkReservedName(o.(metav1.Object).GetName())...)
		}
	}
	return kinds
}

// checkReservedName refuses a new object with a name of those that come from files.
func checkReservedName(name string) field.ErrorList {
	const reserved = ".static.k8s.io"
	if !strings.HasSuffix(name, reserved) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), name, fmt.Sprintf("names ending with %q "+
		"are reserved for static manifest-based configurations and cannot be managed via the API", reserved))}
}

func newKind(resource, kindName string, t resourcedef.Types) resourcedef.Kind {
	return resourcedef.Kind{
		Group: admissionv1.GroupName, Version: "v1", Resource: resource, Singular: strings.ToLower(kindName),
		Kind:  kindName,
		Names: resourcedef.Names{Categories: []string{"api-extensions"}}, Types: t,
	}
}

func spec() *field.Path { return field.NewPath("spec") }

// defaultMatch is for what webhooks and policies share.
func defaultMatch(match **admissionv1.MatchPolicyType, ns, obj **metav1.LabelSelector) {
	typed.SetDefault(match, admissionv1.Equivalent)
	typed.SetDefault(ns, metav1.LabelSelector{})
	typed.SetDefault(obj, metav1.LabelSelector{})
}

// defaultResources fills in what a policy's match leaves open.
func defaultResources(m *admissionv1.MatchResources) {
	if m == nil {
		return
	}
	defaultMatch(&m.MatchPolicy, &m.NamespaceSelector, &m.ObjectSelector)
	for _, rules := range [][]admissionv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range rules {
			typed.SetDefault(&rules[i].Scope, admissionv1.AllScopes)
		}
	}
}
