package auth

import (
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateSubject(r *authorizationv1.SubjectAccessReview) field.ErrorList {
	return append(validateSubjectSpec(&r.Spec), emptyMeta(r.ObjectMeta, "")...)
}

func validateSelf(r *authorizationv1.SelfSubjectAccessReview) field.ErrorList {
	errs := validateQuestion(accessQuestion{r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes})
	errs = append(errs, validateSelectors(r.Spec.ResourceAttributes)...)
	return append(errs, emptyMeta(r.ObjectMeta, "")...)
}

func validateLocal(r *authorizationv1.LocalSubjectAccessReview) field.ErrorList {
	errs := validateSubjectSpec(&r.Spec)
	errs = append(errs, emptyMeta(r.ObjectMeta, " except for namespace")...)
	if a := r.Spec.ResourceAttributes; a != nil && a.Namespace != r.Namespace {
		errs = append(errs, field.Invalid(field.NewPath("spec", "resourceAttributes", "namespace"), a.Namespace,
			"must match metadata.namespace"))
	}
	if r.Spec.NonResourceAttributes != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec", "nonResourceAttributes"),
			shownResourceAttributes(r.Spec.NonResourceAttributes), "disallowed on this kind of request"))
	}
	return errs
}

func validateSubjectSpec(s *authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	errs := validateQuestion(accessQuestion{s.ResourceAttributes, s.NonResourceAttributes})
	if s.User == "" && len(s.Groups) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "user"), s.User,
			"at least one of user or group must be specified"))
	}
	return append(errs, validateSelectors(s.ResourceAttributes)...)
}

// shownPath prints as upstream's own type, which has no JSON names, does in errors.
type shownPath struct{ Path, Verb string }

func shownResourceAttributes(a *authorizationv1.NonResourceAttributes) any {
	if a == nil {
		return nil
	}
	return shownPath{a.Path, a.Verb}
}

func validateQuestion(q accessQuestion) field.ErrorList {
	if (q.resource == nil) != (q.path == nil) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec"), shownResourceAttributes(q.path),
		"exactly one of nonResourceAttributes or resourceAttributes must be specified")}
}

func emptyMeta(m metav1.ObjectMeta, except string) field.ErrorList {
	whole := m
	m.ManagedFields = nil
	if except != "" {
		m.Namespace = ""
	}
	if equality.Semantic.DeepEqual(m, metav1.ObjectMeta{}) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), whole, "must be empty"+except)}
}

func validateSelectors(a *authorizationv1.ResourceAttributes) field.ErrorList {
	if a == nil {
		return nil
	}
	var errs field.ErrorList
	if s := a.FieldSelector; s != nil {
		at := field.NewPath("spec", "resourceAttributes", "fieldSelector")
		errs = append(errs, validateSelectorForm(s.RawSelector, len(s.Requirements), at)...)
		for i, r := range s.Requirements {
			errs = append(errs, metavalidation.ValidateFieldSelectorRequirement(r,
				metavalidation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true},
				at.Child("requirements").Index(i))...)
		}
	}
	if s := a.LabelSelector; s != nil {
		at := field.NewPath("spec", "resourceAttributes", "labelSelector")
		errs = append(errs, validateSelectorForm(s.RawSelector, len(s.Requirements), at)...)
		for i, r := range s.Requirements {
			errs = append(errs, metavalidation.ValidateLabelSelectorRequirement(r,
				metavalidation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true},
				at.Child("requirements").Index(i))...)
		}
	}
	return errs
}

func validateSelectorForm(raw string, requirements int, at *field.Path) field.ErrorList {
	switch {
	case raw != "" && requirements > 0:
		return field.ErrorList{field.Invalid(at.Child("rawSelector"), raw,
			"may not specified at the same time as requirements")}
	case raw == "" && requirements == 0:
		return field.ErrorList{field.Required(at.Child("requirements"),
			fmt.Sprintf("when %s is specified, requirements or rawSelector is required", at))}
	}
	return nil
}
