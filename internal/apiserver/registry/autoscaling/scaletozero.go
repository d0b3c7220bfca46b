package autoscaling

import (
	"context"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// WithoutScaleToZero refuses autoscalers that scale to zero, as with the gate HPAScaleToZero off.
// One that does already may stay so.
func WithoutScaleToZero(all []resourcedef.Kind) {
	for i := range all {
		if all[i].Types.New == nil {
			continue
		}
		if _, is := all[i].Types.New().(*autoscalingv2.HorizontalPodAutoscaler); !is {
			continue
		}
		r := &all[i].Rules
		create, update := r.Validate, r.ValidateUpdate
		r.Validate = func(ctx context.Context, obj runtime.Object) field.ErrorList {
			return append(create(ctx, obj), refuseZero(obj, nil)...)
		}
		r.ValidateUpdate = func(ctx context.Context, obj, old runtime.Object) field.ErrorList {
			return append(update(ctx, obj, old), refuseZero(obj, old)...)
		}
	}
}

func refuseZero(obj, old runtime.Object) field.ErrorList {
	if !scalesToZero(obj) || scalesToZero(old) {
		return nil
	}
	var f typed.Errors
	f.AtLeast(field.NewPath("spec", "minReplicas"), 0, 1)
	return f.List()
}

func scalesToZero(obj runtime.Object) bool {
	h, ok := obj.(*autoscalingv2.HorizontalPodAutoscaler)
	return ok && h.Spec.MinReplicas != nil && *h.Spec.MinReplicas == 0
}
