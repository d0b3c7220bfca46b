package pods

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func Validate(p *v1.Pod) field.ErrorList                  { return nil }
func ValidateUpdate(p, old *v1.Pod) field.ErrorList       { return nil }
func ValidateStatusUpdate(p, old *v1.Pod) field.ErrorList { return nil }
