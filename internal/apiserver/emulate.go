package apiserver

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

// emulate136 makes kinds as v1.36 stored them where v1.37 does otherwise: a StatefulSet's rolling update and a CSIDriver had a default less, and autoscalers no generation.
func emulate136(kinds []kind.Kind) {
	for i := range kinds {
		k := &kinds[i]
		switch k.Group + "/" + k.Resource {
		case appsv1.GroupName + "/statefulsets":
			without(&k.Rules, func(o runtime.Object) undo {
				s, ok := o.(*appsv1.StatefulSet)
				if !ok || s.Spec.UpdateStrategy.RollingUpdate != nil && s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable != nil {
					return nil
				}
				return func() {
					if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil {
						r.MaxUnavailable = nil
					}
				}
			})
		case storagev1.GroupName + "/csidrivers":
			without(&k.Rules, func(o runtime.Object) undo {
				d, ok := o.(*storagev1.CSIDriver)
				if !ok || d.Spec.PreventPodSchedulingIfMissing != nil {
					return nil
				}
				return func() { d.Spec.PreventPodSchedulingIfMissing = nil }
			})
		case autoscalingv2.GroupName + "/horizontalpodautoscalers":
			k.Types.NoGenerate = true
		}
	}
}

// undo takes a default back.
type undo func()

// without takes back what defaults set in a field that was empty before.
func without(r *kind.Rules, empty func(runtime.Object) undo) {
	fill := r.Default
	r.Default = func(o runtime.Object) {
		back := empty(o)
		fill(o)
		if back != nil {
			back()
		}
	}
}
