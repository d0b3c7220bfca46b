package core

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

func namespaces() resourcedef.Kind {
	return resourcedef.Kind{
		Version: "v1", Resource: "namespaces", Singular: "namespace", Kind: "Namespace",
		Names: resourcedef.Names{Short: []string{"ns"}},
		Types: resourcedef.Types{
			New:       func() runtime.Object { return &v1.Namespace{} },
			NewList:   func() runtime.Object { return &v1.NamespaceList{} },
			HasStatus: true, NoGenerate: true,
		},
		Rules: resourcedef.Rules{
			Default:       func(o runtime.Object) { defaultNamespace(o.(*v1.Namespace)) },
			PrepareCreate: func(_ context.Context, o runtime.Object) { prepareNamespace(o.(*v1.Namespace)) },
			PrepareUpdate: func(_ context.Context, o, old runtime.Object) {
				ns, previous := o.(*v1.Namespace), old.(*v1.Namespace)
				ns.Spec.Finalizers, ns.Status = previous.Spec.Finalizers, previous.Status
			},
			Validate: func(_ context.Context, o runtime.Object) field.ErrorList {
				return validateFinalizers(o.(*v1.Namespace), false)
			},
			ValidateStatus: func(_ context.Context, o, _ runtime.Object) field.ErrorList {
				return validatePhase(o.(*v1.Namespace))
			},
			ValidateName: validation.ValidateNamespaceName,
			Fields: func(o runtime.Object) fields.Set {
				ns := o.(*v1.Namespace)
				return fields.Set{"status.phase": string(ns.Status.Phase), "name": ns.Name}
			},
			AllowUnconditionalUpdate: true,
		},
		Stored: resourcedef.Stored{DeleteDuringUpdate: namespaceIsEmpty},
		Table: resourcedef.Table{
			Columns: []metav1.TableColumnDefinition{printers.NameColumn(),
				printers.StringColumn("Status", "The status of the namespace"), printers.AgeColumn()},
			Row: func(o runtime.Object, opt resourcedef.RowOptions) []any {
				ns := o.(*v1.Namespace)
				return []any{ns.Name, string(ns.Status.Phase), printers.TimestampSince(ns.CreationTimestamp, opt.Now)}
			},
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
