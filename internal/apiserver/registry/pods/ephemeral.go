package pods

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/gantry-project/gantry/internal/pod"
)

// ephemeralContainersRules are pods/ephemeralcontainers: containers may be added to a Pod, never
// changed or removed.
type ephemeralContainersRules struct{}

func (ephemeralContainersRules) prepareForUpdate(p, old *v1.Pod) {
	added := p.Spec.EphemeralContainers
	restoreOldPod(p, old)
	p.Spec.EphemeralContainers = added
}

// restoreOldPod makes p the stored Pod again, save for what tells the write apart: its expected
// version and its field managers.
func restoreOldPod(p, old *v1.Pod) {
	version, uid, managers := p.ResourceVersion, p.UID, p.ManagedFields
	*p = *old.DeepCopy()
	p.ResourceVersion, p.UID, p.ManagedFields = version, uid, managers
}

func (ephemeralContainersRules) warnings(_, _ *v1.Pod) []string { return nil }

// resetFields says that only the list of ephemeral containers is written here.
func (ephemeralContainersRules) resetFields() fieldpath.Filter {
	return fieldpath.NewIncludeMatcherFilter(fieldpath.MakePrefixMatcherOrDie("spec", "ephemeralContainers"))
}

func (ephemeralContainersRules) validate(p, old *v1.Pod) field.ErrorList {
	errs := validateAnyUpdate(p, old)
	if pod.IsMirror(old) {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers")}
	}
	path := field.NewPath("spec", "ephemeralContainers")
	for i := range old.Spec.EphemeralContainers {
		previous := &old.Spec.EphemeralContainers[i]
		now := named(p.Spec.EphemeralContainers, previous.Name)
		switch {
		case now == nil:
			errs = append(errs,
				field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be removed\n",
					previous.Name)))
		case !apiequality.Semantic.DeepEqual(previous, now):
			errs = append(errs,
				field.Forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v",
					previous.Name, diff.Diff(previous, now))))
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
