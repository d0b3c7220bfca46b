package core

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

func namespaces() kind.Kind {
	return kind.Kind{
		Version: "v1", Resource: "namespaces", Singular: "namespace", Kind: "Namespace",
		Names: kind.Names{Short: []string{"ns"}},
		Types: kind.Types{
			New:       func() runtime.Object { return &v1.Namespace{} },
			NewList:   func() runtime.Object { return &v1.NamespaceList{} },
			HasStatus: true, NoGenerate: true,
		},
		Rules: kind.Rules{
			Default:       func(o runtime.Object) { defaultNamespace(o.(*v1.Namespace)) },
			PrepareCreate: func(_ context.Context, o runtime.Object) { prepareNamespace(o.(*v1.Namespace)) },
			PrepareUpdate: func(_ context.Context, o, old runtime.Object) {
				ns, was := o.(*v1.Namespace), old.(*v1.Namespace)
				ns.Spec.Finalizers, ns.Status = was.Spec.Finalizers, was.Status
			},
			Validate: func(_ context.Context, o runtime.Object) field.ErrorList {
				return validateFinalizers(o.(*v1.Namespace), false)
			},
			ValidateStatus: func(_ context.Context, o, _ runtime.Object) field.ErrorList { return validatePhase(o.(*v1.Namespace)) },
			ValidateName:   validation.ValidateNamespaceName,
			Fields: func(o runtime.Object) fields.Set {
				ns := o.(*v1.Namespace)
				return fields.Set{"status.phase": string(ns.Status.Phase), "name": ns.Name}
			},
			AllowUnconditionalUpdate: true,
		},
		Stored: kind.Stored{DeleteDuringUpdate: namespaceIsEmpty},
		Table: kind.Table{
			Columns: []metav1.TableColumnDefinition{column.Name(), column.Def("Status", "The status of the namespace"), column.Age()},
			Row: func(o runtime.Object, opt kind.RowOptions) []any {
				ns := o.(*v1.Namespace)
				return []any{ns.Name, string(ns.Status.Phase), column.Since(ns.CreationTimestamp, opt.Now)}
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
