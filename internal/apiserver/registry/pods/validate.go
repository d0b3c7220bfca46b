package pods

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
)

// Validate validates a new Pod. Metadata itself is validated by the machinery.
func Validate(p *v1.Pod) field.ErrorList {
	errs := metadataAndSpec(p)
	spec := field.NewPath("spec")
	if len(p.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(spec.Child("ephemeralContainers"), "cannot be set on create"))
	}
	if p.Spec.NodeName != "" && len(p.Spec.SchedulingGates) != 0 {
		errs = append(errs,
			field.Forbidden(spec.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	return append(errs, podspec.ValidateAnnotationConflicts(p.Annotations, &p.Spec, spec)...)
}

// metadataAndSpec is what holds for a Pod at any time.
func metadataAndSpec(p *v1.Pod) field.ErrorList {
	spec := field.NewPath("spec")
	errs := podspec.ValidateFinalizers(p.Finalizers, field.NewPath("metadata", "finalizers"))
	errs = append(errs, podspec.ValidateAnnotations(p.Annotations, &p.Spec,
		field.NewPath("metadata", "annotations"))...)
	errs = append(errs, podspec.ValidatePodSpec(&p.Spec, p.Name, spec)...)
	if p.Spec.ServiceAccountName == "" {
		for i, v := range p.Spec.Volumes {
			if v.Projected == nil {
				continue
			}
			for k, s := range v.Projected.Sources {
				if s.ServiceAccountToken != nil {
					errs = append(errs,
						field.Forbidden(spec.Child("volumes").Index(i).Child("projected", "sources").Index(k).Child(
							"serviceAccountToken"), "must not be specified when serviceAccountName is not set"))
				}
			}
		}
	}
	for i := range p.Spec.Containers {
		errs = append(errs, podspec.ValidateImageWhitespace(&p.Spec.Containers[i],
			spec.Child("containers").Index(i))...)
	}
	for i := range p.Spec.InitContainers {
		errs = append(errs, podspec.ValidateImageWhitespace(&p.Spec.InitContainers[i],
			spec.Child("initContainers").Index(i))...)
	}
	return errs
}

// validateAnyUpdate is what holds for every change of a Pod's spec, through whichever endpoint.
func validateAnyUpdate(p, old *v1.Pod) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&p.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, metadataAndSpec(p)...)
	return append(errs, annotationUpdates(p, old, field.NewPath("metadata", "annotations"))...)
}

// statusMetadata is what holds for the metadata of a Pod whose status is written.
func statusMetadata(p, old *v1.Pod) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&p.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, annotationUpdates(p, old, field.NewPath("metadata", "annotations"))...)
}

// annotationUpdates: the annotations that tell where a Pod comes from and how it is confined stay
// as they were made.
func annotationUpdates(p, old *v1.Pod, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	fixed := func(k string) string {
		switch {
		case strings.HasPrefix(k, v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix):
			return "AppArmor annotations"
		case k == v1.MirrorPodAnnotationKey:
			return "mirror pod annotation"
		}
		return ""
	}
	for _, k := range slices.Sorted(maps.Keys(old.Annotations)) {
		previous := old.Annotations[k]
		if now, ok := p.Annotations[k]; (!ok || now != previous) && fixed(k) != "" {
			errs = append(errs, field.Forbidden(path.Key(k), "may not remove or update "+fixed(k)))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(p.Annotations)) {
		if _, ok := old.Annotations[k]; !ok && fixed(k) != "" {
			errs = append(errs, field.Forbidden(path.Key(k), "may not add "+fixed(k)))
		}
	}
	return append(errs, podspec.ValidateAnnotations(p.Annotations, &p.Spec, path)...)
}
