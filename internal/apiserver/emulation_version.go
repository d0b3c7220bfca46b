package apiserver

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/registry/pods"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	internalpod "github.com/gantry-project/gantry/internal/pod"
)

// emulate136 changes kinds to what v1.36 stored where v1.37 differs: no default of a StatefulSet's
// rolling update and of one CSIDriver field, no generation of autoscalers, and no default of
// pod-level limits.
func emulate136(kinds []resourcedef.Kind) {
	for i := range kinds {
		k := &kinds[i]
		switch k.Group + "/" + k.Resource {
		case corev1.GroupName + "/pods":
			prepare := k.Rules.PrepareCreate
			k.Rules.PrepareCreate = func(ctx context.Context, o runtime.Object) {
				p, ok := o.(*corev1.Pod)
				if !ok || p.Spec.Resources == nil {
					prepare(ctx, o)
					return
				}
				limits := p.Spec.Resources.Limits.DeepCopy()
				prepare(ctx, o)
				p.Spec.Resources.Limits = limits
				p.Status.QOSClass = internalpod.QOS(p)
			}
			subresources := k.Subresources
			k.Subresources = func(d resourcedef.Deps) map[string]rest.Storage {
				all := subresources(d)
				pods.ResizeWithoutPodLevelLimits(all)
				return all
			}
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

// undoFunc removes a default.
type undoFunc func()

// undoDefault wraps r.Default so that a field that was empty before is empty afterwards. empty
// returns the undoFunc for an object, nil if its field is set.
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
