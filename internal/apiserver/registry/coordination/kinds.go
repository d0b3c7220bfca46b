// Package coordination holds the row of coordination.k8s.io/v1: Lease. In: nothing. Out: rows for
// apiserver.Kinds, with v1.37's checks and columns. Fields of coordinated leader election are
// dropped: v1.37 has them behind a gate that is off by default.
package coordination

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// Kinds are the rows of this package.
func Kinds() []resourcedef.Kind { return []resourcedef.Kind{leases()} }

func leases() resourcedef.Kind {
	k := resourcedef.Kind{
		Group: coordinationv1.GroupName, Version: "v1", Resource: "leases", Singular: "lease", Kind: "Lease",
		Types: typed.NewNamespacedTypes[coordinationv1.Lease, coordinationv1.LeaseList](),
		Rules: typed.Rules[coordinationv1.Lease]{
			PrepareForCreate: func(_ context.Context, l *coordinationv1.Lease) {
				l.Spec.Strategy, l.Spec.PreferredHolder = nil, nil
			},
			PrepareForUpdate: func(l, previous *coordinationv1.Lease) {
				if previous.Spec.Strategy == nil && previous.Spec.PreferredHolder == nil {
					l.Spec.Strategy, l.Spec.PreferredHolder = nil, nil
				}
			},
			Validate:            func(l, _ *coordinationv1.Lease) field.ErrorList { return check(&l.Spec) },
			AllowCreateOnUpdate: true,
		}.Untyped(),
		Table: resourcedef.Table{
			Columns: []metav1.TableColumnDefinition{printers.NameColumn(),
				printers.StringColumn("Holder", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]),
				printers.AgeColumn()},
			Row: typed.RowFunc(func(l *coordinationv1.Lease, o resourcedef.RowOptions) []any {
				return []any{l.Name, typed.Deref(l.Spec.HolderIdentity), printers.TimestampSince(l.CreationTimestamp,
					o.Now)}
			}),
		},
	}
	k.Types.NoGenerate = true
	return k
}

func check(s *coordinationv1.LeaseSpec) field.ErrorList {
	var f typed.Errors
	spec := field.NewPath("spec")
	if n := s.LeaseDurationSeconds; n != nil && *n <= 0 {
		f.Invalid(spec.Child("leaseDurationSeconds"), *n, "must be greater than 0")
	}
	f.NotNegativeIf(spec.Child("leaseTransitions"), s.LeaseTransitions)
	return f.List()
}
