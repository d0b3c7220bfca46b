package scheduling

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// WithGroups lets Pods, and templates of Pods, name their PodGroup: with the gate GenericWorkload
// off, spec.schedulingGroup is dropped on write by the kinds' own rules.
func WithGroups(all []resourcedef.Kind) []resourcedef.Kind {
	for i := range all {
		if k := &all[i]; k.Types.New != nil {
			if spec, _ := specOf(k.Types.New()); spec != nil {
				keepSchedulingGroup(&k.Rules)
			}
		}
	}
	return all
}

// keepSchedulingGroup puts the field back that the rules drop, and validates it.
func keepSchedulingGroup(r *resourcedef.Rules) {
	create, update, validate, validateUpdate := r.PrepareCreate, r.PrepareUpdate, r.Validate, r.ValidateUpdate
	r.PrepareCreate = func(ctx context.Context, obj runtime.Object) {
		spec, _ := specOf(obj)
		g := spec.SchedulingGroup
		if create != nil {
			create(ctx, obj)
		}
		spec.SchedulingGroup = g
	}
	r.PrepareUpdate = func(ctx context.Context, obj, old runtime.Object) {
		spec, _ := specOf(obj)
		g := spec.SchedulingGroup
		if update != nil {
			update(ctx, obj, old)
		}
		spec.SchedulingGroup = g
	}
	r.Validate = func(ctx context.Context, obj runtime.Object) field.ErrorList {
		var errs field.ErrorList
		if validate != nil {
			errs = validate(ctx, obj)
		}
		return append(errs, checkSchedulingGroup(obj)...)
	}
	r.ValidateUpdate = func(ctx context.Context, obj, old runtime.Object) field.ErrorList {
		var errs field.ErrorList
		if validateUpdate != nil {
			errs = validateUpdate(ctx, obj, old)
		}
		return append(errs, checkSchedulingGroup(obj)...)
	}
}

// checkSchedulingGroup validates spec.schedulingGroup: it names a PodGroup.
func checkSchedulingGroup(obj runtime.Object) field.ErrorList {
	spec, at := specOf(obj)
	if spec == nil || spec.SchedulingGroup == nil {
		return nil
	}
	var f typed.Errors
	at = at.Child("schedulingGroup")
	if spec.SchedulingGroup.PodGroupName == nil {
		f.Invalid(at, "", "must specify one of: `podGroupName`")
	} else {
		longName(&f, at.Child("podGroupName"), *spec.SchedulingGroup.PodGroupName)
	}
	return f.List()
}

// specOf finds the Pod spec in a Pod, or in what makes Pods; nil in anything else.
func specOf(obj runtime.Object) (*corev1.PodSpec, *field.Path) {
	template := field.NewPath("spec", "template", "spec")
	switch o := obj.(type) {
	case *corev1.Pod:
		return &o.Spec, field.NewPath("spec")
	case *corev1.PodTemplate:
		return &o.Template.Spec, field.NewPath("template", "spec")
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec, template
	case *appsv1.ReplicaSet:
		return &o.Spec.Template.Spec, template
	case *appsv1.StatefulSet:
		return &o.Spec.Template.Spec, template
	case *appsv1.DaemonSet:
		return &o.Spec.Template.Spec, template
	case *batchv1.Job:
		return &o.Spec.Template.Spec, template
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template.Spec, field.NewPath("spec", "jobTemplate", "spec", "template", "spec")
	}
	return nil, nil
}
