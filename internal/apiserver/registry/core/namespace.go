package core

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func namespaces() resourcedef.Kind {
	t := typed.NewTypes[v1.Namespace, v1.NamespaceList]()
	t.HasStatus, t.NoGenerate = true, true
	return resourcedef.Kind{
		Version: "v1", Resource: "namespaces", Singular: "namespace", Kind: "Namespace",
		Names: resourcedef.Names{Short: []string{"ns"}},
		Types: t,
		Rules: typed.Rules[v1.Namespace]{
			Default:          defaultNamespace,
			PrepareForCreate: func(_ context.Context, ns *v1.Namespace) { prepareNamespace(ns) },
			PrepareForUpdate: func(ns, old *v1.Namespace) {
				ns.Spec.Finalizers, ns.Status = old.Spec.Finalizers, old.Status
			},
			Validate: func(ns, _ *v1.Namespace) field.ErrorList {
				return validateFinalizers(ns, false)
			},
			ValidateStatus: func(ns, _ *v1.Namespace) field.ErrorList { return validatePhase(ns) },
			ValidateName:   validation.ValidateNamespaceName,
			SelectableFields: func(ns *v1.Namespace) fields.Set {
				return fields.Set{"status.phase": string(ns.Status.Phase), "name": ns.Name}
			},
			AllowUnconditionalUpdate: true,
		}.Untyped(),
		Stored: resourcedef.Stored{DeleteDuringUpdate: namespaceIsEmpty},
		Table: resourcedef.Table{
			Columns: []metav1.TableColumnDefinition{printers.NameColumn(),
				printers.StringColumn("Status", "The status of the namespace"), printers.AgeColumn()},
			Row: typed.RowFunc(func(ns *v1.Namespace, opt resourcedef.RowOptions) []any {
				return []any{ns.Name, string(ns.Status.Phase), printers.TimestampSince(ns.CreationTimestamp, opt.Now)}
			}),
		},
		Subresources: namespaceSubresources,
	}
}

// defaultNamespace gives each namespace the label that selectors find it by.
func defaultNamespace(ns *v1.Namespace) {
	if ns.Status.Phase == "" {
		ns.Status.Phase = v1.NamespaceActive
	}
	if ns.Name == "" {
		return
	}
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels[v1.LabelMetadataName] = ns.Name
}

// prepareNamespace makes a namespace Active and holds it until its content is gone.
func prepareNamespace(ns *v1.Namespace) {
	ns.Status = v1.NamespaceStatus{Phase: v1.NamespaceActive}
	for _, f := range ns.Spec.Finalizers {
		if f == v1.FinalizerKubernetes {
			return
		}
	}
	ns.Spec.Finalizers = append(ns.Spec.Finalizers, v1.FinalizerKubernetes)
}
