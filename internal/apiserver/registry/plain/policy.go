package plain

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

// Policy are the rows of policy/v1.
func Policy() []kind.Kind {
	k := kind.Kind{
		Group: policyv1.GroupName, Version: "v1", Resource: "poddisruptionbudgets", Singular: "poddisruptionbudget", Kind: "PodDisruptionBudget",
		Names: kind.Names{Short: []string{"pdb"}},
		Types: types[policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudgetList](),
	}
	k.Types.Namespaced, k.Types.HasStatus = true, true
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Def("Min Available", "The minimum number of pods that must be available."),
			column.Def("Max Unavailable", "The maximum number of pods that may be unavailable."),
			column.Int("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time."), column.Age(),
		},
		Row: row(func(b *policyv1.PodDisruptionBudget, o kind.RowOptions) []any {
			text := func(v *intstr.IntOrString) string {
				if v == nil {
					return "N/A"
				}
				return v.String()
			}
			return []any{b.Name, text(b.Spec.MinAvailable), text(b.Spec.MaxUnavailable), int64(b.Status.DisruptionsAllowed), column.Since(b.CreationTimestamp, o.Now)}
		}),
	}
	return []kind.Kind{k}
}

// Coordination are the rows of coordination.k8s.io/v1.
func Coordination() []kind.Kind {
	k := kind.Kind{
		Group: coordinationv1.GroupName, Version: "v1", Resource: "leases", Singular: "lease", Kind: "Lease",
		Types: types[coordinationv1.Lease, coordinationv1.LeaseList](),
		Rules: kind.Rules{AllowCreateOnUpdate: true},
	}
	k.Types.Namespaced, k.Types.NoGenerate = true, true
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{column.Name(), column.Def("Holder", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]), column.Age()},
		Row: row(func(l *coordinationv1.Lease, o kind.RowOptions) []any {
			holder := ""
			if l.Spec.HolderIdentity != nil {
				holder = *l.Spec.HolderIdentity
			}
			return []any{l.Name, holder, column.Since(l.CreationTimestamp, o.Now)}
		}),
	}
	return []kind.Kind{k}
}

// Scheduling are the rows of scheduling.k8s.io/v1.
func Scheduling() []kind.Kind {
	doc := schedulingv1.PriorityClass{}.SwaggerDoc()
	k := kind.Kind{
		Group: schedulingv1.GroupName, Version: "v1", Resource: "priorityclasses", Singular: "priorityclass", Kind: "PriorityClass",
		Names: kind.Names{Short: []string{"pc"}},
		Types: types[schedulingv1.PriorityClass, schedulingv1.PriorityClassList](),
		Rules: kind.Rules{
			Default: func(o runtime.Object) {
				orElse(&o.(*schedulingv1.PriorityClass).PreemptionPolicy, corev1.PreemptLowerPriority)
			},
			PrepareCreate:            func(_ context.Context, o runtime.Object) { o.(*schedulingv1.PriorityClass).Generation = 1 },
			AllowUnconditionalUpdate: true,
		},
	}
	k.Types.NoGenerate = true // made with 1, which stays
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Int("Value", doc["value"]), {Name: "Global-Default", Type: "boolean", Description: doc["globalDefault"]},
			column.Age(), column.Def("PreemptionPolicy", doc["preemptionPolicy"]),
		},
		Row: row(func(p *schedulingv1.PriorityClass, o kind.RowOptions) []any {
			policy := corev1.PreemptLowerPriority
			if p.PreemptionPolicy != nil {
				policy = *p.PreemptionPolicy
			}
			return []any{p.Name, int64(p.Value), p.GlobalDefault, column.Since(p.CreationTimestamp, o.Now), string(policy)}
		}),
	}
	return []kind.Kind{k}
}

// Node are the rows of node.k8s.io/v1.
func Node() []kind.Kind {
	k := kind.Kind{
		Group: nodev1.GroupName, Version: "v1", Resource: "runtimeclasses", Singular: "runtimeclass", Kind: "RuntimeClass",
		Types: types[nodev1.RuntimeClass, nodev1.RuntimeClassList](),
	}
	k.Types.NoGenerate, k.Rules.AllowCreateOnUpdate = true, true
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{column.Name(), column.Def("Handler", ""), column.Age()},
		Row: row(func(r *nodev1.RuntimeClass, o kind.RowOptions) []any {
			return []any{r.Name, r.Handler, column.Since(r.CreationTimestamp, o.Now)}
		}),
	}
	return []kind.Kind{k}
}
