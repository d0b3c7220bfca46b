package admissionregistration

import (
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func bindingTable(parts func(runtime.Object) (string, *admissionv1.ParamRef)) resourcedef.Table {
	return resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{
			printers.NameColumn(),
			printers.StringColumn("PolicyName",
				"PolicyName indicates the policy definition which the policy binding binded to"),
			printers.StringColumn("ParamRef",
				"ParamRef indicates the param resource which sets the configuration param"), printers.AgeColumn(),
		},
		Row: func(o runtime.Object, opt resourcedef.RowOptions) []any {
			policy, ref := parts(o)
			text := "<unset>"
			if ref != nil {
				text = strings.Trim(ref.Namespace+"/"+ref.Name, "/")
			}
			m := o.(metav1.Object)
			return []any{m.GetName(), policy, text, printers.TimestampSince(m.GetCreationTimestamp(), opt.Now)}
		},
	}
}

func validatingBindings() resourcedef.Kind {
	type binding = admissionv1.ValidatingAdmissionPolicyBinding
	k := newKind("validatingadmissionpolicybindings",
		"ValidatingAdmissionPolicyBinding", typed.NewTypes[binding, admissionv1.ValidatingAdmissionPolicyBindingList]())
	k.Rules = typed.Rules[binding]{
		Default: func(b *binding) {
			defaultResources(b.Spec.MatchResources)
		},
		Validate: func(b, _ *binding) field.ErrorList {
			var f typed.Errors
			// That the name is required is declared at v1.37.2's type, and so validated last,
			// before the actions.
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
	}.Untyped()
	k.Table = bindingTable(func(o runtime.Object) (string, *admissionv1.ParamRef) {
		s := o.(*binding).Spec
		return s.PolicyName, s.ParamRef
	})
	return k
}

func mutatingBindings() resourcedef.Kind {
	type binding = admissionv1.MutatingAdmissionPolicyBinding
	k := newKind("mutatingadmissionpolicybindings",
		"MutatingAdmissionPolicyBinding", typed.NewTypes[binding, admissionv1.MutatingAdmissionPolicyBindingList]())
	k.Rules = typed.Rules[binding]{
		Default: func(b *binding) {
			defaultResources(b.Spec.MatchResources)
		},
		Validate: func(b, _ *binding) field.ErrorList {
			var f typed.Errors
			if b.Spec.PolicyName == "" {
				f.Required(spec().Child("policyName"), "")
			}
			checkBinding(&f, b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources)
			if m := b.Spec.MatchResources; m != nil {
				checkMutatedOperations(&f, m.ResourceRules, spec().Child("matchResources", "resourceRules",
					"operations"))
			}
			return f.List()
		},
	}.Untyped()
	k.Table = bindingTable(func(o runtime.Object) (string, *admissionv1.ParamRef) {
		s := o.(*binding).Spec
		return s.PolicyName, s.ParamRef
	})
	return k
}

// checkBinding validates what both kinds of bindings have in common, but that a policy must be
// named.
func checkBinding(f *typed.Errors, policy string, p *admissionv1.ParamRef, m *admissionv1.MatchResources) {
	if policy != "" {
		f.DNSSubdomain(spec().Child("policyName"), policy)
	}
	if p != nil {
		checkParam(f, p, spec().Child("paramRef"))
	}
	if m != nil {
		checkMatch(f, m, spec().Child("matchResources"))
	}
}

func checkParam(f *typed.Errors, p *admissionv1.ParamRef, at *field.Path) {
	if p.Name != "" {
		f.InvalidEach(at.Child("name"), p.Name, content.IsPathSegmentName(p.Name))
		if p.Selector != nil {
			f.Forbidden(at.Child("name"), "name and selector are mutually exclusive")
		}
	}
	f.LabelSelector(at.Child("selector"), p.Selector)
	if p.Name != "" && p.Selector != nil {
		f.Forbidden(at.Child("selector"), "name and selector are mutually exclusive")
	}
	if p.Name == "" && p.Selector == nil {
		f.Required(at, "one of name or selector must be specified")
	}
	if a := p.ParameterNotFoundAction; a == nil || *a == "" {
		f.Required(at.Child("parameterNotFoundAction"), "")
	} else {
		typed.Supported(f, at.Child("parameterNotFoundAction"), *a, admissionv1.DenyAction, admissionv1.AllowAction)
	}
}

func checkActions(f *typed.Errors, list []admissionv1.ValidationAction) {
	at := spec().Child("validationActions")
	seen := sets.New[admissionv1.ValidationAction]()
	for i, a := range list {
		typed.Supported(f, at.Index(i), a, admissionv1.Audit, admissionv1.Deny, admissionv1.Warn)
		if seen.Has(a) {
			f.Add(field.Duplicate(at.Index(i), a))
		}
		seen.Insert(a)
	}
	if seen.Has(admissionv1.Deny) && seen.Has(admissionv1.Warn) {
		f.Invalid(at, list,
			"must not contain both Deny and Warn (repeating the same validation failure information in the API "+
				"response and headers serves no purpose)")
	}
}
