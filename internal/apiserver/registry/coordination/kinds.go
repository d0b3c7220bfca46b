// Package coordination holds the row of coordination.k8s.io/v1: Lease.
//
// Chapter 1, written.
// In: nothing. Out: rows for apiserver.Kinds, with v1.37's checks and columns. Fields of coordinated leader election are dropped: v1.37 has them
// behind a gate that is off by default.
package coordination

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
)

// Kinds are the rows of this package.
func Kinds() []kind.Kind { return []kind.Kind{leases()} }

func leases() kind.Kind {
	k := kind.Kind{
		Group: coordinationv1.GroupName, Version: "v1", Resource: "leases", Singular: "lease", Kind: "Lease",
		Types: row.InNamespace[coordinationv1.Lease, coordinationv1.LeaseList](),
		Rules: row.Rules[coordinationv1.Lease]{
			Create: func(_ context.Context, l *coordinationv1.Lease) { l.Spec.Strategy, l.Spec.PreferredHolder = nil, nil },
			Update: func(l, was *coordinationv1.Lease) {
				if was.Spec.Strategy == nil && was.Spec.PreferredHolder == nil {
					l.Spec.Strategy, l.Spec.PreferredHolder = nil, nil
				}
			},
			Check:          func(l, _ *coordinationv1.Lease) field.ErrorList { return check(&l.Spec) },
			CreateOnUpdate: true,
		}.Rules(),
		Table: kind.Table{
			Columns: []metav1.TableColumnDefinition{column.Name(), column.Def("Holder", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]), column.Age()},
			Row: row.Cells(func(l *coordinationv1.Lease, o kind.RowOptions) []any {
				return []any{l.Name, row.Value(l.Spec.HolderIdentity), column.Since(l.CreationTimestamp, o.Now)}
			}),
		},
	}
	k.Types.NoGenerate = true
	return k
}

func check(s *coordinationv1.LeaseSpec) field.ErrorList {
	var f row.Findings
	spec := field.NewPath("spec")
	if n := s.LeaseDurationSeconds; n != nil && *n <= 0 {
		f.Invalid(spec.Child("leaseDurationSeconds"), *n, "must be greater than 0")
	}
	f.NotNegativeIf(spec.Child("leaseTransitions"), s.LeaseTransitions)
	return f.List()
}
