package core

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
)

const notNegative = "must be greater than or equal to 0"

func validateController(rc, _ *v1.ReplicationController) field.ErrorList {
	var errs field.ErrorList
	s, spec := &rc.Spec, field.NewPath("spec")
	if s.MinReadySeconds < 0 {
		errs = append(errs, field.Invalid(spec.Child("minReadySeconds"), s.MinReadySeconds, notNegative))
	}
	if len(s.Selector) == 0 {
		errs = append(errs, field.Required(spec.Child("selector"), ""))
	}
	switch {
	case s.Replicas == nil:
		errs = append(errs, field.Required(spec.Child("replicas"), ""))
	case *s.Replicas < 0:
		errs = append(errs, field.Invalid(spec.Child("replicas"), *s.Replicas, notNegative))
	}
	t, path := s.Template, spec.Child("template")
	if t == nil {
		return append(errs, field.Required(path, ""))
	}
	if sel := labels.SelectorFromSet(s.Selector); !sel.Empty() && !sel.Matches(labels.Set(t.Labels)) {
		errs = append(errs, field.Invalid(path.Child("metadata", "labels"), t.Labels,
			"`selector` does not match template `labels`"))
	}
	errs = append(errs, podspec.ValidatePodTemplateSpec(t, path)...)
	if t.Spec.RestartPolicy != v1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(path.Child("spec", "restartPolicy"), t.Spec.RestartPolicy,
			[]v1.RestartPolicy{v1.RestartPolicyAlways}))
	}
	if t.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("spec", "activeDeadlineSeconds"),
			"activeDeadlineSeconds in ReplicationController is not Supported"))
	}
	return errs
}

func validateControllerStatus(rc, _ *v1.ReplicationController) field.ErrorList {
	var errs field.ErrorList
	s, path := &rc.Status, field.NewPath("status")
	for _, n := range []struct {
		child string
		value int32
	}{{"replicas", s.Replicas}, {"fullyLabeledReplicas", s.FullyLabeledReplicas}, {"readyReplicas", s.ReadyReplicas},
		{"availableReplicas", s.AvailableReplicas}} {
		if n.value < 0 {
			errs = append(errs, field.Invalid(path.Child(n.child), n.value, notNegative))
		}
		if n.value > s.Replicas {
			errs = append(errs, field.Invalid(path.Child(n.child), n.value, "cannot be greater than status.replicas"))
		}
	}
	if s.ObservedGeneration < 0 {
		errs = append(errs, field.Invalid(path.Child("observedGeneration"), s.ObservedGeneration, notNegative))
	}
	if s.AvailableReplicas > s.ReadyReplicas {
		errs = append(errs, field.Invalid(path.Child("availableReplicas"), s.AvailableReplicas,
			"cannot be greater than readyReplicas"))
	}
	return errs
}
