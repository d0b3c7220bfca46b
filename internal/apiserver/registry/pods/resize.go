package pods

import (
	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/pod"
)

// resizeRules are pods/resize: cpu and memory of running containers, within the Pod's QoS class.
type resizeRules struct {
	noPodLevelLimits bool // none is set by default, as in v1.36
}

// ResizeWithoutPodLevelLimits has a resize set no pod-level limits by default, as in v1.36; all are
// the subresources of Pods.
func ResizeWithoutPodLevelLimits(all map[string]rest.Storage) {
	if r, ok := all["resize"].(*updateREST); ok {
		r.rules = resizeRules{noPodLevelLimits: true}
	}
}

// prepareForUpdate takes requests, limits and resize policies of each container from the write and
// all else from the stored Pod. A container that the stored Pod does not have stays, to be refused
// by name.
func (r resizeRules) prepareForUpdate(p, old *v1.Pod) {
	if len(p.Spec.Containers) == len(old.Spec.Containers) &&
		len(p.Spec.InitContainers) == len(old.Spec.InitContainers) {
		containers, inits, whole := p.Spec.Containers, p.Spec.InitContainers, p.Spec.Resources
		restoreOldPod(p, old)
		p.Spec.Containers = resized(containers, old.Spec.Containers)
		p.Spec.InitContainers = resized(inits, old.Spec.InitContainers)
		p.Spec.Resources = whole
	}
	if p.Spec.Resources == nil {
		p.Spec.Resources = old.Spec.Resources.DeepCopy() // of a client that does not know the field
	}
	podspec.DefaultPodLevel(&p.Spec)
	if !r.noPodLevelLimits {
		podspec.DefaultPodLevelLimits(&p.Spec)
	}
}

// resized are the stored containers with the new resources and resize policies; the new ones as
// they are if they are named otherwise, which validation refuses.
func resized(now, previous []v1.Container) []v1.Container {
	out := make([]v1.Container, len(now))
	for i := range now {
		if previous[i].Name != now[i].Name {
			return now
		}
		out[i] = *previous[i].DeepCopy()
		out[i].Resources, out[i].ResizePolicy = now[i].Resources, now[i].ResizePolicy
	}
	if len(out) == 0 {
		return now
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
	if pod.IsMirror(old) {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods cannot be resized")}
	}
	if old.Spec.OS != nil && old.Spec.OS.Name == v1.Windows {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "windows pods cannot be resized")}
	}
	class := old.Status.QOSClass
	if class == "" {
		class = pod.QOS(old)
	}
	if pod.QOS(p) != class {
		errs = append(errs,
			field.Invalid(spec, p.Status.QOSClass, "Pod QOS Class may not change as a result of resizing"))
	}
	if !nodeResizes(old) {
		errs = append(errs, field.Forbidden(spec, "Pod running on node without support for resize"))
	}
	rest := p.Spec.DeepCopy() // without what a resize may change
	if setsPodLevel(p) || setsPodLevel(old) {
		errs = append(errs, validatePodLevelResize(p, old, rest)...)
	}
	containers, initContainers := spec.Child("containers"), spec.Child("initContainers")
	order := append(validateContainerOrder(p.Spec.Containers, old.Spec.Containers, "containers"),
		validateContainerOrder(p.Spec.InitContainers, old.Spec.InitContainers, "initContainers")...)
	if len(order) > 0 {
		return append(errs, order...)
	}
	errs = append(errs, validateResizedContainers(p.Spec.InitContainers, old.Spec.InitContainers, initContainers)...)
	errs = append(errs, validateResizedContainers(p.Spec.Containers, old.Spec.Containers, containers)...)
	for i := range rest.Containers {
		c, previous := &rest.Containers[i], &old.Spec.Containers[i]
		restoreCPUAndMemory(&c.Resources, &previous.Resources)
		if !apiequality.Semantic.DeepEqual(c, previous) {
			errs = append(errs, field.Forbidden(spec, "only cpu and memory resources are mutable"))
		}
	}
	for i := range rest.InitContainers {
		c, previous := &rest.InitContainers[i], &old.Spec.InitContainers[i]
		at, modified := initContainers.Index(i), !apiequality.Semantic.DeepEqual(c, previous)
		restoreCPUAndMemory(&c.Resources, &previous.Resources)
		if !apiequality.Semantic.DeepEqual(c, previous) {
			errs = append(errs,
				field.Forbidden(at, "only cpu and memory resources for init or sidecar containers are mutable"))
		}
		if !modified || pod.IsSidecar(c) {
			continue
		}
		for _, r := range c.ResizePolicy {
			if r.RestartPolicy == v1.RestartContainer {
				errs = append(errs, field.Forbidden(at,
					"non-sidecar init containers with a resize policy of RestartContainer cannot be resized"))
			}
		}
	}
	if len(errs) == 0 && !apiequality.Semantic.DeepEqual(rest, &old.Spec) {
		errs = append(errs, field.Forbidden(spec, "only cpu and memory resources are mutable"))
	}
	return errs
}

// nodeResizes reports whether the Pod's node shows the resources of what runs, as one does that can
// resize; true if nothing runs.
func nodeResizes(p *v1.Pod) bool {
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running != nil {
			return c.Resources != nil
		}
	}
	return true
}

func setsPodLevel(p *v1.Pod) bool {
	return p.Spec.Resources != nil && len(p.Spec.Resources.Requests)+len(p.Spec.Resources.Limits) > 0
}

// validatePodLevelResize validates changed pod-level resources, and restores in rest what may
// change.
func validatePodLevelResize(p, old *v1.Pod, rest *v1.PodSpec) (errs field.ErrorList) {
	spec, previous := field.NewPath("spec"), old.Spec.Resources
	path := spec.Child("resources")
	if previous != nil && p.Spec.Resources == nil {
		return field.ErrorList{field.Forbidden(path, "pod-level resources cannot be removed")}
	}
	if previous == nil {
		previous = &v1.ResourceRequirements{}
	}
	if removesResource(p.Spec.Resources.Requests, previous.Requests) {
		errs = append(errs, field.Forbidden(path.Child("requests"), "pod-level resource requests cannot be removed"))
	}
	if removesResource(p.Spec.Resources.Limits, previous.Limits) {
		errs = append(errs, field.Forbidden(path.Child("limits"), "pod-level resource limits cannot be removed"))
	}
	restoreCPUAndMemory(rest.Resources, previous)
	if old.Spec.Resources == nil && len(rest.Resources.Requests) == 0 && len(rest.Resources.Limits) == 0 &&
		len(rest.Resources.Claims) == 0 {
		rest.Resources = nil
	}
	if !apiequality.Semantic.DeepEqual(rest.Resources, old.Spec.Resources) {
		errs = append(errs, field.Forbidden(spec, "only cpu and memory resources are mutable at pod-level"))
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

// removesResource reports whether a list has a resource less than before.
func removesResource(now, previous v1.ResourceList) bool {
	for name := range previous {
		if _, ok := now[name]; !ok {
			return true
		}
	}
	return false
}

// restoreCPUAndMemory sets back what a resize may change.
func restoreCPUAndMemory(now, previous *v1.ResourceRequirements) {
	now.Requests = restoredResources(now.Requests, previous.Requests)
	now.Limits = restoredResources(now.Limits, previous.Limits)
}

// restoredResources are the new amounts but for CPU and memory, which are the old ones.
func restoredResources(now, previous v1.ResourceList) v1.ResourceList {
	if now == nil && previous == nil {
		return nil
	}
	out := v1.ResourceList{}
	for name, q := range now {
		out[name] = q
	}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		delete(out, name)
		if q, ok := previous[name]; ok {
			out[name] = q
		}
	}
	return out
}
