package apiserver

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// emulate136 makes kinds as v1.36 stored them where v1.37 does otherwise: a StatefulSet's rolling
// update and a CSIDriver had a default less, and autoscalers no generation.
func emulate136(kinds []resourcedef.Kind) {
	for i := range kinds {
		k := &kinds[i]
		switch k.Group + "/" + k.Resource {
		case appsv1.GroupName + "/statefulsets":
			undoDefault(&k.Rules, func(o runtime.Object) undoFunc {
				s, ok := o.(*appsv1.StatefulSet)
				if !ok || s.Spec.UpdateStrategy.RollingUpdate != nil &&
					s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable != nil {
					return nil
				}
				return func() {
					if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil {
						r.MaxUnavailable = nil
					}
				}
			})
		case storagev1.GroupName + "/csidrivers":
			undoDefault(&k.Rules, func(o runtime.Object) undoFunc {
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

// undoFunc takes a default back.
type undoFunc func()

// undoDefault takes back what defaults set in a field that was empty before.
func undoDefault(r *resourcedef.Rules, empty func(runtime.Object) undoFunc) {
	fill := r.Default
	r.Default = func(o runtime.Object) {
		back := empty(o)
		fill(o)
		if back != nil {
			back()
		}
	}
}
