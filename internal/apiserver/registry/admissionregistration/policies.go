package admissionregistration

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
)

func validatingPolicies(x compilers) kind.Kind {
	type policy = admissionv1.ValidatingAdmissionPolicy
	k := names("validatingadmissionpolicies", "ValidatingAdmissionPolicy", row.Types[policy, admissionv1.ValidatingAdmissionPolicyList]())
	k.Types.HasStatus = true
	k.Rules = row.Rules[policy]{
		Default: func(p *policy) {
			row.OrElse(&p.Spec.FailurePolicy, admissionv1.Fail)
			defaultResources(p.Spec.MatchConstraints)
		},
		Check:       checker(x, validatingParts, checkValidations),
		CheckStatus: checkPolicyStatus,
	}.Rules()
	k.Table = kind.Table{
		Columns: policyColumns(column.Int("Validations", "Validations indicates the number of validation rules defined in this configuration")),
		Row: row.Cells(func(p *policy, o kind.RowOptions) []any {
			return []any{p.Name, int64(len(p.Spec.Validations)), paramKind(p.Spec.ParamKind), column.Since(p.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

func mutatingPolicies(x compilers) kind.Kind {
	type policy = admissionv1.MutatingAdmissionPolicy
	k := names("mutatingadmissionpolicies", "MutatingAdmissionPolicy", row.Types[policy, admissionv1.MutatingAdmissionPolicyList]())
	k.Rules = row.Rules[policy]{
		Default: func(p *policy) {
			row.OrElse(&p.Spec.FailurePolicy, admissionv1.Fail)
			defaultResources(p.Spec.MatchConstraints)
		},
		Check: checker(x, mutatingParts, checkMutations),
	}.Rules()
	k.Table = kind.Table{
		Columns: policyColumns(column.Int("Mutations", "Mutation indicates the number of mutations rules defined in this configuration")),
		Row: row.Cells(func(p *policy, o kind.RowOptions) []any {
			return []any{p.Name, int64(len(p.Spec.Mutations)), paramKind(p.Spec.ParamKind), column.Since(p.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

func policyColumns(count metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		column.Name(), count, column.Def("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"), column.Age(),
	}
}

func paramKind(p *admissionv1.ParamKind) string {
	if p == nil {
		return "<unset>"
	}
	return p.APIVersion + "/" + p.Kind
}
