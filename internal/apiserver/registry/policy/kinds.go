// Package policy holds the row of policy/v1: PodDisruptionBudget.
//
// Chapter 1, written.
// In: nothing. Out: rows for apiserver.Kinds, with v1.37's defaults, checks and columns.
package policy

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
)

// Kinds are the rows of this package.
func Kinds() []kind.Kind { return []kind.Kind{budgets()} }

func budgets() kind.Kind {
	k := kind.Kind{
		Group: policyv1.GroupName, Version: "v1", Resource: "poddisruptionbudgets", Singular: "poddisruptionbudget", Kind: "PodDisruptionBudget",
		Names: kind.Names{Short: []string{"pdb"}},
		Types: row.InNamespace[policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudgetList](),
		Rules: row.Rules[policyv1.PodDisruptionBudget]{
			Check:       func(b, _ *policyv1.PodDisruptionBudget) field.ErrorList { return checkBudget(&b.Spec) },
			CheckStatus: func(b, _ *policyv1.PodDisruptionBudget) field.ErrorList { return checkStatus(&b.Status) },
		}.Rules(),
		Table: kind.Table{
			Columns: []metav1.TableColumnDefinition{
				column.Name(), column.Def("Min Available", "The minimum number of pods that must be available."),
				column.Def("Max Unavailable", "The maximum number of pods that may be unavailable."),
				column.Int("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time."), column.Age(),
			},
			Row: row.Cells(budgetRow),
		},
	}
	k.Types.HasStatus = true
	k.Types.ValidateMeta = func(runtime.Object) field.ErrorList { return nil } // by the library alone
	return k
}

func budgetRow(b *policyv1.PodDisruptionBudget, o kind.RowOptions) []any {
	text := func(v *intstr.IntOrString) string {
		if v == nil {
			return "N/A"
		}
		return v.String()
	}
	return []any{b.Name, text(b.Spec.MinAvailable), text(b.Spec.MaxUnavailable), int64(b.Status.DisruptionsAllowed), column.Since(b.CreationTimestamp, o.Now)}
}

func checkBudget(s *policyv1.PodDisruptionBudgetSpec) field.ErrorList {
	var f row.Findings
	spec := field.NewPath("spec")
	if s.MinAvailable != nil && s.MaxUnavailable != nil {
		f.Invalid(spec, row.Bare(s), "minAvailable and maxUnavailable cannot be both set")
	}
	for _, n := range []struct {
		child string
		value *intstr.IntOrString
	}{{"minAvailable", s.MinAvailable}, {"maxUnavailable", s.MaxUnavailable}} {
		if n.value != nil {
			f.IntOrPercent(spec.Child(n.child), *n.value)
			f.AtMostAll(spec.Child(n.child), *n.value)
		}
	}
	f.Selector(spec.Child("selector"), s.Selector)
	if p := s.UnhealthyPodEvictionPolicy; p != nil {
		row.OneOf(&f, spec.Child("unhealthyPodEvictionPolicy"), *p, policyv1.AlwaysAllow, policyv1.IfHealthyBudget)
	}
	return f.List()
}

func checkStatus(s *policyv1.PodDisruptionBudgetStatus) field.ErrorList {
	var f row.Findings
	status := field.NewPath("status")
	f.Add(metavalidation.ValidateConditions(s.Conditions, status.Child("conditions"))...)
	f.NotNegative(status.Child("disruptionsAllowed"), int64(s.DisruptionsAllowed))
	f.NotNegative(status.Child("currentHealthy"), int64(s.CurrentHealthy))
	f.NotNegative(status.Child("desiredHealthy"), int64(s.DesiredHealthy))
	f.NotNegative(status.Child("expectedPods"), int64(s.ExpectedPods))
	return f.List()
}
