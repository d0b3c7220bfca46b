package pods

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// ephemeralRules are pods/ephemeralcontainers: containers may be added to a Pod, never changed or removed.
type ephemeralRules struct{}

func (ephemeralRules) keep(p, old *v1.Pod) {
	added := p.Spec.EphemeralContainers
	rv, fields := p.ResourceVersion, p.ManagedFields
	*p = *old.DeepCopy()
	p.Spec.EphemeralContainers = added
	p.ResourceVersion, p.ManagedFields = rv, fields
}

func (ephemeralRules) warn(*v1.Pod, *v1.Pod) []string { return nil }

func (ephemeralRules) reset() *fieldpath.Set {
	return fieldpath.NewSet(fieldpath.MakePathOrDie("status"), fieldpath.MakePathOrDie("spec")).
		Difference(fieldpath.NewSet(fieldpath.MakePathOrDie("spec", "ephemeralContainers")))
}

func (ephemeralRules) validate(p, old *v1.Pod) field.ErrorList { return nil }
