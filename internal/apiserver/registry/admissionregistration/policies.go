package admissionregistration

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func validatingPolicies(x celCompilers) resourcedef.Kind {
	type policy = admissionv1.ValidatingAdmissionPolicy
	k := newKind("validatingadmissionpolicies",
		"ValidatingAdmissionPolicy", typed.NewTypes[policy, admissionv1.ValidatingAdmissionPolicyList]())
	k.Types.HasStatus = true
	k.Types.StatusResetFields = []string{"metadata"}
	k.Rules = typed.Rules[policy]{
		Default: func(p *policy) {
			typed.SetDefault(&p.Spec.FailurePolicy, admissionv1.Fail)
			defaultResources(p.Spec.MatchConstraints)
		},
		Validate:       checker(x, validatingParts, checkValidations),
		ValidateStatus: checkPolicyStatus,
	}.Untyped()
	k.Table = resourcedef.Table{
		Columns: policyColumns(printers.IntColumn("Validations",
			"Validations indicates the number of validation rules defined in this configuration")),
		Row: typed.RowFunc(func(p *policy, o resourcedef.RowOptions) []any {
			return []any{p.Name, int64(len(p.Spec.Validations)), paramKind(p.Spec.ParamKind),
				printers.TimestampSince(p.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

func mutatingPolicies(x celCompilers) resourcedef.Kind {
	type policy = admissionv1.MutatingAdmissionPolicy
	k := newKind("mutatingadmissionpolicies",
		"MutatingAdmissionPolicy", typed.NewTypes[policy, admissionv1.MutatingAdmissionPolicyList]())
	k.Rules = typed.Rules[policy]{
		Default: func(p *policy) {
			typed.SetDefault(&p.Spec.FailurePolicy, admissionv1.Fail)
			defaultResources(p.Spec.MatchConstraints)
		},
		Validate: checker(x, mutatingParts, checkMutations),
	}.Untyped()
	k.Table = resourcedef.Table{
		Columns: policyColumns(printers.IntColumn("Mutations",
			"Mutation indicates the number of mutations rules defined in this configuration")),
		Row: typed.RowFunc(func(p *policy, o resourcedef.RowOptions) []any {
			return []any{p.Name, int64(len(p.Spec.Mutations)), paramKind(p.Spec.ParamKind),
				printers.TimestampSince(p.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

func policyColumns(count metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		printers.NameColumn(), count,
		printers.StringColumn("ParamKind",
			"ParamKind specifies the kind of resources used to parameterize this policy"), printers.AgeColumn(),
	}
}

func paramKind(p *admissionv1.ParamKind) string {
	if p == nil {
		return "<unset>"
	}
	return p.APIVersion + "/" + p.Kind
}
