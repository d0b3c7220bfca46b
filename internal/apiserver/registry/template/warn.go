package template

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Warnings are what a client should read about a spec that is accepted.
func Warnings(s *v1.PodSpec, annotations map[string]string, path *field.Path) []string { return nil }
