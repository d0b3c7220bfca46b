package pods

import (
	"github.com/gantry-project/gantry/internal/pod"
	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// resizeRules are pods/resize: cpu and memory of running containers, within the Pod's QoS class.
type resizeRules struct{}

// prepareForUpdate takes requests, limits and resize policies of each container from the write and
// all else from the stored Pod. A container that the stored Pod does not have stays, to be refused
// by name.
func (resizeRules) prepareForUpdate(p, old *v1.Pod) {
	containers, inits, whole := p.Spec.Containers, p.Spec.InitContainers, p.Spec.Resources
	restoreOldPod(p, old)
	p.Spec.Containers = resized(containers, old.Spec.Containers)
	p.Spec.InitContainers = resized(inits, old.Spec.InitContainers)
	p.Spec.Resources = whole
}

func resized(now, previous []v1.Container) []v1.Container {
	if now == nil {
		return nil
	}
	out := make([]v1.Container, 0, len(now))
	for i := range now {
		c := now[i]
		for k := range previous {
			if previous[k].Name == c.Name {
				c = *previous[k].DeepCopy()
				c.Resources, c.ResizePolicy = now[i].Resources, now[i].ResizePolicy
			}
		}
		out = append(out, c)
	}
	return out
}

func (resizeRules) warnings(_, _ *v1.Pod) []string { return nil }

// resetFields says that only resources and resize policies are written here.
func (resizeRules) resetFields() fieldpath.Filter {
	any := fieldpath.MatchAnyPathElement()
	return fieldpath.NewIncludeMatcherFilter(
		fieldpath.MakePrefixMatcherOrDie("spec", "containers", any, "resources"),
		fieldpath.MakePrefixMatcherOrDie("spec", "containers", any, "resizePolicy"),
		fieldpath.MakePrefixMatcherOrDie("spec", "initContainers", any, "resources"),
		fieldpath.MakePrefixMatcherOrDie("spec", "initContainers", any, "resizePolicy"),
		fieldpath.MakePrefixMatcherOrDie("spec", "resources"),
	)
}

func (resizeRules) validate(p, old *v1.Pod) field.ErrorList {
	errs := validateAnyUpdate(p, old)
	spec := field.NewPath("spec")
	if _, static := old.Annotations[v1.MirrorPodAnnotationKey]; static {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods cannot be resized")}
	}
	if old.Spec.OS != nil && old.Spec.OS.Name == v1.Windows {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "windows pods cannot be resized")}
	}
	if pod.QOS(p) != old.Status.QOSClass && old.Status.QOSClass != "" {
		errs = append(errs,
			field.Invalid(spec, p.Status.QOSClass, "Pod QOS Class may not change as a result of resizing"))
	}
	containers, initContainers := spec.Child("containers"), spec.Child("initContainers")
	order := append(validateContainerOrder(p.Spec.Containers, old.Spec.Containers, "containers"),
		validateContainerOrder(p.Spec.InitContainers, old.Spec.InitContainers, "initContainers")...)
	if len(order) > 0 {
		return append(errs, order...)
	}
	errs = append(errs, validateResizedContainers(p.Spec.InitContainers, old.Spec.InitContainers, initContainers)...)
	errs = append(errs, validateResizedContainers(p.Spec.Containers, old.Spec.Containers, containers)...)
	if !apiequality.Semantic.DeepEqual(withoutResources(&p.Spec, &old.Spec), &old.Spec) {
		errs = append(errs, field.Forbidden(spec, "only cpu and memory resources are mutable"))
	}
	return errs
}

// validateContainerOrder wants the same containers in the same order; list is the field's name.
func validateContainerOrder(now, previous []v1.Container, list string) (errs field.ErrorList) {
	path := field.NewPath("spec", list)
	if len(now) != len(previous) {
		return field.ErrorList{field.Forbidden(path, list+" may not be added or removed on resize")}
	}
	for i := range previous {
		if now[i].Name != previous[i].Name {
			errs = append(errs, field.Forbidden(path.Index(i).Child("name"),
				list+" may not be renamed or reordered on resize"))
		}
	}
	return errs
}

// validateResizedContainers refuses that requests or limits are removed.
func validateResizedContainers(now, previous []v1.Container, path *field.Path) (errs field.ErrorList) {
	for i := range previous {
		at := path.Index(i).Child("resources")
		if removesResource(now[i].Resources.Requests, previous[i].Resources.Requests) {
			errs = append(errs, field.Forbidden(at.Child("requests"), "resource requests cannot be removed"))
		}
		if removesResource(now[i].Resources.Limits, previous[i].Resources.Limits) {
			errs = append(errs, field.Forbidden(at.Child("limits"), "resource limits cannot be removed"))
		}
	}
	return errs
}

func removesResource(now, previous v1.ResourceList) bool {
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		_, had := previous[name]
		_, has := now[name]
		if had && !has {
			return true
		}
	}
	return false
}

// withoutResources is the new spec with cpu and memory as they were.
func withoutResources(now, previous *v1.PodSpec) *v1.PodSpec {
	s := now.DeepCopy()
	restore := func(a, b *v1.ResourceRequirements) {
		a.Limits, a.Requests = restoredResources(a.Limits, b.Limits), restoredResources(a.Requests, b.Requests)
	}
	for i := range s.Containers {
		restore(&s.Containers[i].Resources, &previous.Containers[i].Resources)
	}
	for i := range s.InitContainers {
		restore(&s.InitContainers[i].Resources, &previous.InitContainers[i].Resources)
	}
	if s.Resources != nil && previous.Resources != nil {
		restore(s.Resources, previous.Resources)
	}
	return s
}

func restoredResources(now, previous v1.ResourceList) v1.ResourceList {
	out := v1.ResourceList{}
	for name, q := range now {
		if name != v1.ResourceCPU && name != v1.ResourceMemory {
			out[name] = q
		}
	}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if q, ok := previous[name]; ok {
			out[name] = q
		}
	}
	if len(out) == 0 {
		return previous
	}
	return out
}
