package core

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// WithCrossNamespaceSources lets claims name a data source in another namespace: with the gate
// CrossNamespaceVolumeDataSource off, it is dropped on write by the claims' own rules.
func WithCrossNamespaceSources(all []resourcedef.Kind) {
	for i := range all {
		if all[i].Types.New == nil {
			continue
		}
		if _, claims := all[i].Types.New().(*v1.PersistentVolumeClaim); claims {
			keepCrossNamespaceSource(&all[i].Rules)
		}
	}
}

// keepCrossNamespaceSource keeps a reference to another namespace from the rules that drop it.
func keepCrossNamespaceSource(r *resourcedef.Rules) {
	kept := func(obj runtime.Object, prepare func()) {
		s := &obj.(*v1.PersistentVolumeClaim).Spec
		source, ref := s.DataSource, s.DataSourceRef
		prepare()
		if ref != nil && ref.Namespace != nil && *ref.Namespace != "" {
			s.DataSource, s.DataSourceRef = source, ref
		}
	}
	create, update := r.PrepareCreate, r.PrepareUpdate
	r.PrepareCreate = func(ctx context.Context, obj runtime.Object) { kept(obj, func() { create(ctx, obj) }) }
	r.PrepareUpdate = func(ctx context.Context, obj, old runtime.Object) {
		kept(obj, func() { update(ctx, obj, old) })
	}
}
