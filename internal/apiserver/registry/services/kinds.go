package services

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/registry/pods"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// Kinds returns the Service with its subresources, allocating from a. c connects services/proxy.
func Kinds(a *Allocator, c pods.Connections) []resourcedef.Kind {
	return []resourcedef.Kind{{
		Version: "v1", Resource: "services", Singular: "service", Kind: "Service",
		Names: resourcedef.Names{Short: []string{"svc"}, Categories: []string{"all"}},
		Types: resourcedef.Types{
			New:        func() runtime.Object { return &v1.Service{} },
			NewList:    func() runtime.Object { return &v1.ServiceList{} },
			Namespaced: true, HasStatus: true, NoGenerate: true,
		},
		Rules: resourcedef.Rules{
			Default: func(o runtime.Object) { Default(o.(*v1.Service)) },
			PrepareUpdate: func(_ context.Context, o, old runtime.Object) {
				dropTypeDependentFields(o.(*v1.Service), old.(*v1.Service))
			},
			Validate: func(_ context.Context, o runtime.Object) field.ErrorList {
				return Validate(o.(*v1.Service), nil)
			},
			ValidateUpdate: func(_ context.Context, o, old runtime.Object) field.ErrorList {
				return ValidateUpdate(o.(*v1.Service), old.(*v1.Service))
			},
			ValidateStatus: func(_ context.Context, o, _ runtime.Object) field.ErrorList {
				return validateStatus(o.(*v1.Service))
			},
			ValidateName: validateName,
			Warn:         func(_ context.Context, o runtime.Object) []string { return warn(o.(*v1.Service)) },
			Fields: func(o runtime.Object) fields.Set {
				s := o.(*v1.Service)
				return fields.Set{"spec.clusterIP": s.Spec.ClusterIP, "spec.type": string(s.Spec.Type)}
			},
			AllowUnconditionalUpdate: true, AllowCreateOnUpdate: true,
			BeginCreate: func(ctx context.Context, o runtime.Object, dryRun bool) (func(bool), error) {
				return a.begin(ctx, o.(*v1.Service), nil, dryRun)
			},
			BeginUpdate: func(ctx context.Context, o, old runtime.Object, dryRun bool) (func(bool), error) {
				return a.begin(ctx, o.(*v1.Service), old.(*v1.Service), dryRun)
			},
			AfterDelete: func(o runtime.Object) { a.releaseAll(o.(*v1.Service)) },
		},
		Stored: resourcedef.Stored{
			Canonicalize: func(o runtime.Object) { dropInternalTrafficPolicy(o.(*v1.Service)) },
		},
		Table:        table(),
		Subresources: func(d resourcedef.Deps) map[string]rest.Storage { return proxySubresource(a, c, d) },
	}}
}
