package template

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidatePodTemplateSpec judges a Pod template.
func ValidatePodTemplateSpec(t *v1.PodTemplateSpec, path *field.Path) field.ErrorList { return nil }

// ValidateClaim judges a claim's spec.
func ValidateClaim(s *v1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList { return nil }
