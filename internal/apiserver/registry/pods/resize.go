package pods

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// resizeRules are pods/resize: requests, limits and resize policies of running containers.
type resizeRules struct{}

func (resizeRules) keep(p, old *v1.Pod)            {}
func (resizeRules) warn(*v1.Pod, *v1.Pod) []string { return nil }
func (resizeRules) reset() *fieldpath.Set {
	return fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
}
func (resizeRules) validate(p, old *v1.Pod) field.ErrorList { return nil }
