package admissionregistration

import (
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
)

func bindingTable(parts func(runtime.Object) (string, *admissionv1.ParamRef)) kind.Table {
	return kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Def("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to"),
			column.Def("ParamRef", "ParamRef indicates the param resource which sets the configuration param"), column.Age(),
		},
		Row: func(o runtime.Object, opt kind.RowOptions) []any {
			policy, ref := parts(o)
			text := "<unset>"
			if ref != nil {
				text = strings.Trim(ref.Namespace+"/"+ref.Name, "/")
			}
			m := o.(metav1.Object)
			return []any{m.GetName(), policy, text, column.Since(m.GetCreationTimestamp(), opt.Now)}
		},
	}
}

func validatingBindings() kind.Kind {
	type binding = admissionv1.ValidatingAdmissionPolicyBinding
	k := names("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", row.Types[binding, admissionv1.ValidatingAdmissionPolicyBindingList]())
	k.Rules = row.Rules[binding]{
		Default: func(b *binding) {
			defaultResources(b.Spec.MatchResources)
		},
		Check: func(b, _ *binding) field.ErrorList {
			var f row.Findings
			// That the name is required is declared at v1.37.2's type, and so judged last, before the actions.
			checkBinding(&f, b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources)
			checkActions(&f, b.Spec.ValidationActions)
			if b.Spec.PolicyName == "" {
				f.Required(spec().Child("policyName"), "")
			}
			if len(b.Spec.ValidationActions) == 0 {
				f.Required(spec().Child("validationActions"), "")
			}
			return f.List()
		},
	}.Rules()
	k.Table = bindingTable(func(o runtime.Object) (string, *admissionv1.ParamRef) {
		s := o.(*binding).Spec
		return s.PolicyName, s.ParamRef
	})
	return k
}

func mutatingBindings() kind.Kind {
	type binding = admissionv1.MutatingAdmissionPolicyBinding
	k := names("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", row.Types[binding, admissionv1.MutatingAdmissionPolicyBindingList]())
	k.Rules = row.Rules[binding]{
		Default: func(b *binding) {
			defaultResources(b.Spec.MatchResources)
		},
		Check: func(b, _ *binding) field.ErrorList {
			var f row.Findings
			if b.Spec.PolicyName == "" {
				f.Required(spec().Child("policyName"), "")
			}
			checkBinding(&f, b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources)
			if m := b.Spec.MatchResources; m != nil {
				checkMutatedOperations(&f, m.ResourceRules, spec().Child("matchResources", "resourceRules", "operations"))
			}
			return f.List()
		},
	}.Rules()
	k.Table = bindingTable(func(o runtime.Object) (string, *admissionv1.ParamRef) {
		s := o.(*binding).Spec
		return s.PolicyName, s.ParamRef
	})
	return k
}

// checkBinding judges what both kinds of bindings have in common, but that a policy must be named.
func checkBinding(f *row.Findings, policy string, p *admissionv1.ParamRef, m *admissionv1.MatchResources) {
	if policy != "" {
		f.Subdomain(spec().Child("policyName"), policy)
	}
	if p != nil {
		checkParam(f, p, spec().Child("paramRef"))
	}
	if m != nil {
		checkMatch(f, m, spec().Child("matchResources"))
	}
}

func checkParam(f *row.Findings, p *admissionv1.ParamRef, at *field.Path) {
	if p.Name != "" {
		f.Each(at.Child("name"), p.Name, content.IsPathSegmentName(p.Name))
		if p.Selector != nil {
			f.Forbidden(at.Child("name"), "name and selector are mutually exclusive")
		}
	}
	f.Selector(at.Child("selector"), p.Selector)
	if p.Name != "" && p.Selector != nil {
		f.Forbidden(at.Child("selector"), "name and selector are mutually exclusive")
	}
	if p.Name == "" && p.Selector == nil {
		f.Required(at, "one of name or selector must be specified")
	}
	if a := p.ParameterNotFoundAction; a == nil || *a == "" {
		f.Required(at.Child("parameterNotFoundAction"), "")
	} else {
		row.OneOf(f, at.Child("parameterNotFoundAction"), *a, admissionv1.DenyAction, admissionv1.AllowAction)
	}
}

func checkActions(f *row.Findings, list []admissionv1.ValidationAction) {
	at := spec().Child("validationActions")
	seen := sets.New[admissionv1.ValidationAction]()
	for i, a := range list {
		row.OneOf(f, at.Index(i), a, admissionv1.Audit, admissionv1.Deny, admissionv1.Warn)
		if seen.Has(a) {
			f.Add(field.Duplicate(at.Index(i), a))
		}
		seen.Insert(a)
	}
	if seen.Has(admissionv1.Deny) && seen.Has(admissionv1.Warn) {
		f.Invalid(at, list, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)")
	}
}
