package pods

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// ephemeralRules are pods/ephemeralcontainers: containers may be added to a Pod, never changed or removed.
type ephemeralRules struct{}

func (ephemeralRules) keep(p, old *v1.Pod) {
	added := p.Spec.EphemeralContainers
	keepOld(p, old)
	p.Spec.EphemeralContainers = added
}

// keepOld makes p the stored Pod again, save for what tells the write apart: its expected version and its field managers.
func keepOld(p, old *v1.Pod) {
	version, uid, managers := p.ResourceVersion, p.UID, p.ManagedFields
	*p = *old.DeepCopy()
	p.ResourceVersion, p.UID, p.ManagedFields = version, uid, managers
}

func (ephemeralRules) warn(_, _ *v1.Pod) []string { return nil }

// reset says that only the list of ephemeral containers is written here.
func (ephemeralRules) reset() fieldpath.Filter {
	return fieldpath.NewIncludeMatcherFilter(fieldpath.MakePrefixMatcherOrDie("spec", "ephemeralContainers"))
}

func (ephemeralRules) validate(p, old *v1.Pod) field.ErrorList {
	errs := everyUpdate(p, old)
	if _, static := old.Annotations[v1.MirrorPodAnnotationKey]; static {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers")}
	}
	path := field.NewPath("spec", "ephemeralContainers")
	for i := range old.Spec.EphemeralContainers {
		was := &old.Spec.EphemeralContainers[i]
		now := named(p.Spec.EphemeralContainers, was.Name)
		switch {
		case now == nil:
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be removed\n", was.Name)))
		case !apiequality.Semantic.DeepEqual(was, now):
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v", was.Name, diff.Diff(was, now))))
		}
	}
	return errs
}

func named(list []v1.EphemeralContainer, name string) *v1.EphemeralContainer {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}
