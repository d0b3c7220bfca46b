// Package policy holds the row of policy/v1: PodDisruptionBudget.
// In: nothing. Out: rows for apiserver.Kinds, with v1.37's defaults, checks and columns.
package policy

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// Kinds are the rows of this package.
func Kinds() []resourcedef.Kind { return []resourcedef.Kind{podDisruptionBudgets()} }

func podDisruptionBudgets() resourcedef.Kind {
	k := resourcedef.Kind{
		Group: policyv1.GroupName, Version: "v1", Resource: "poddisruptionbudgets", Singular: "poddisruptionbudget",
		Kind:  "PodDisruptionBudget",
		Names: resourcedef.Names{Short: []string{"pdb"}},
		Types: typed.NewNamespacedTypes[policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudgetList](),
		Rules: typed.Rules[policyv1.PodDisruptionBudget]{
			Validate: func(b, _ *policyv1.PodDisruptionBudget) field.ErrorList {
				return checkPodDisruptionBudget(&b.Spec)
			},
			ValidateStatus: func(b, _ *policyv1.PodDisruptionBudget) field.ErrorList { return checkStatus(&b.Status) },
		}.Untyped(),
		Table: resourcedef.Table{
			Columns: []metav1.TableColumnDefinition{
				printers.NameColumn(),
				printers.StringColumn("Min Available", "The minimum number of pods that must be available."),
				printers.StringColumn("Max Unavailable", "The maximum number of pods that may be unavailable."),
				printers.IntColumn("Allowed Disruptions",
					"Calculated number of pods that may be disrupted at this time."), printers.AgeColumn(),
			},
			Row: typed.RowFunc(podDisruptionBudgetRow),
		},
	}
	k.Types.HasStatus = true
	k.Types.ValidateMeta = func(runtime.Object) field.ErrorList { return nil } // by the library alone
	return k
}

func podDisruptionBudgetRow(b *policyv1.PodDisruptionBudget, o resourcedef.RowOptions) []any {
	text := func(v *intstr.IntOrString) string {
		if v == nil {
			return "N/A"
		}
		return v.String()
	}
	return []any{b.Name, text(b.Spec.MinAvailable), text(b.Spec.MaxUnavailable), int64(b.Status.DisruptionsAllowed),
		printers.TimestampSince(b.CreationTimestamp, o.Now)}
}

func checkPodDisruptionBudget(s *policyv1.PodDisruptionBudgetSpec) field.ErrorList {
	var f typed.Errors
	spec := field.NewPath("spec")
	if s.MinAvailable != nil && s.MaxUnavailable != nil {
		f.Invalid(spec, typed.GoFields(s), "minAvailable and maxUnavailable cannot be both set")
	}
	for _, n := range []struct {
		child string
		value *intstr.IntOrString
	}{{"minAvailable", s.MinAvailable}, {"maxUnavailable", s.MaxUnavailable}} {
		if n.value != nil {
			f.IntOrPercent(spec.Child(n.child), *n.value)
			f.NotMoreThan100Percent(spec.Child(n.child), *n.value)
		}
	}
	f.LabelSelector(spec.Child("selector"), s.Selector)
	if p := s.UnhealthyPodEvictionPolicy; p != nil {
		typed.Supported(&f, spec.Child("unhealthyPodEvictionPolicy"), *p, policyv1.AlwaysAllow,
			policyv1.IfHealthyBudget)
	}
	return f.List()
}

func checkStatus(s *policyv1.PodDisruptionBudgetStatus) field.ErrorList {
	var f typed.Errors
	status := field.NewPath("status")
	f.Add(metavalidation.ValidateConditions(s.Conditions, status.Child("conditions"))...)
	f.NotNegative(status.Child("disruptionsAllowed"), int64(s.DisruptionsAllowed))
	f.NotNegative(status.Child("currentHealthy"), int64(s.CurrentHealthy))
	f.NotNegative(status.Child("desiredHealthy"), int64(s.DesiredHealthy))
	f.NotNegative(status.Child("expectedPods"), int64(s.ExpectedPods))
	return f.List()
}
