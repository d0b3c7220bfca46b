package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
)

// validateClaimUpdate keeps a claim as it was made, but for the volume's name once, a class where
// there was none, and of a bound claim its size and the class of its attributes.
func validateClaimUpdate(c, old *v1.PersistentVolumeClaim) field.ErrorList {
	now, previous := c.DeepCopy(), old.DeepCopy()
	podspec.CopyDataSource(&previous.Spec)
	errs := podspec.ValidateChangedClaim(&c.Spec, &previous.Spec, field.NewPath("spec"))
	if previous.Spec.VolumeName == "" {
		previous.Spec.VolumeName = now.Spec.VolumeName
	}
	errs = append(errs, claimClass(now, previous)...)
	oldSize, newSize := old.Spec.Resources.Requests[v1.ResourceStorage], c.Spec.Resources.Requests[v1.ResourceStorage]
	if c.Status.Phase == v1.ClaimBound {
		if now.Spec.Resources.Requests != nil {
			now.Spec.Resources.Requests[v1.ResourceStorage] = oldSize
		}
		now.Spec.VolumeAttributesClassName = previous.Spec.VolumeAttributesClassName
	}
	if !apiequality.Semantic.DeepEqual(now.Spec, previous.Spec) {
		errs = append(errs, field.Forbidden(field.NewPath("spec"),
			fmt.Sprintf("spec is immutable after creation except resources.requests and volumeAttributesClassName "+
				"for bound claims\n%v", diff.Diff(previous.Spec, now.Spec))))
	}
	if has := old.Status.Capacity[v1.ResourceStorage]; newSize.Cmp(oldSize) < 0 && newSize.Cmp(has) <= 0 {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "resources", "requests", "storage"),
			"field can not be less than status.capacity"))
	}
	errs = append(errs, validation.ValidateImmutableField(c.Spec.VolumeMode, old.Spec.VolumeMode,
		field.NewPath("volumeMode"))...)
	return append(errs, attributesClassKept(c, old)...)
}

// attributesClassKept keeps a claim from giving up the class of its attributes once one was
// applied.
func attributesClassKept(c, old *v1.PersistentVolumeClaim) field.ErrorList {
	const applied = " is forbidden when status.currentVolumeAttributesClassName is not nil"
	class, at := c.Spec.VolumeAttributesClassName, field.NewPath("spec", "volumeAttributesClassName")
	switch {
	case old.Status.CurrentVolumeAttributesClassName == nil,
		apiequality.Semantic.DeepEqual(class, old.Spec.VolumeAttributesClassName):
	case class == nil:
		return field.ErrorList{field.Forbidden(at, "update to nil"+applied)}
	case *class == "":
		return field.ErrorList{field.Forbidden(at, "update to empty string"+applied)}
	}
	return nil
}

// claimClass lets the class move from the old annotation to its field, and be named where there was
// none; both sides are made to agree where that is so. The annotation itself stays as it is.
func claimClass(now, previous *v1.PersistentVolumeClaim) field.ErrorList {
	const key = v1.BetaStorageClassAnnotation
	old, annotated := previous.Annotations[key]
	noted, stillAnnotated := now.Annotations[key]
	named := previous.Spec.StorageClassName == nil && now.Spec.StorageClassName != nil
	if annotated && named && *now.Spec.StorageClassName == old && (!stillAnnotated || noted == old) {
		now.Spec.StorageClassName = nil
		return nil
	}
	var errs field.ErrorList
	if noted != old {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "annotations", key), noted,
			validation.FieldImmutableErrorMsg))
	}
	if named && (!annotated || *now.Spec.StorageClassName == old) {
		now.Spec.StorageClassName = nil
	}
	return errs
}

// validateClaimStatus validates sizes and the state of a resize.
func validateClaimStatus(c, _ *v1.PersistentVolumeClaim) field.ErrorList {
	var errs field.ErrorList
	if len(c.Spec.AccessModes) == 0 {
		errs = append(errs, field.Required(field.NewPath("Spec", "accessModes"), ""))
	}
	status := field.NewPath("status")
	for _, k := range podspec.SortedResources(c.Status.Capacity) {
		errs = append(errs, notNegativeQuantity(c.Status.Capacity[k], status.Child("capacity").Key(string(k)))...)
	}
	resizing := status.Child("allocatedResourceStatuses")
	for _, k := range slices.Sorted(maps.Keys(c.Status.AllocatedResourceStatuses)) {
		errs = append(errs, claimResource(k, resizing)...)
		switch c.Status.AllocatedResourceStatuses[k] {
		case v1.PersistentVolumeClaimControllerResizeInProgress, v1.PersistentVolumeClaimControllerResizeInfeasible,
			v1.PersistentVolumeClaimNodeResizePending,
			v1.PersistentVolumeClaimNodeResizeInProgress, v1.PersistentVolumeClaimNodeResizeInfeasible:
		default:
			errs = append(errs, field.NotSupported(resizing, k, []v1.ClaimResourceStatus{
				v1.PersistentVolumeClaimControllerResizeInProgress, v1.PersistentVolumeClaimControllerResizeInfeasible,
				v1.PersistentVolumeClaimNodeResizeInProgress, v1.PersistentVolumeClaimNodeResizeInfeasible,
				v1.PersistentVolumeClaimNodeResizePending,
			}))
		}
	}
	allocated := status.Child("allocatedResources")
	for _, k := range podspec.SortedResources(c.Status.AllocatedResources) {
		q := c.Status.AllocatedResources[k]
		if bad := claimResource(k, allocated); len(bad) > 0 {
			errs = append(errs, bad...)
			continue
		}
		errs = append(errs, notNegativeQuantity(q, allocated.Key(string(k)))...)
	}
	return errs
}

// claimResource wants storage, or something with a domain of its own.
func claimResource(k v1.ResourceName, at *field.Path) field.ErrorList {
	if bad := utilvalidation.IsQualifiedName(string(k)); len(bad) > 0 {
		return each(at, string(k), bad)
	}
	native := !strings.Contains(string(k), "/") || strings.Contains(string(k), v1.ResourceDefaultNamespacePrefix)
	if native && k != v1.ResourceStorage {
		return field.ErrorList{field.NotSupported(at, string(k), []v1.ResourceName{v1.ResourceStorage})}
	}
	return nil
}

func warnClaim(c *v1.PersistentVolumeClaim) []string {
	out := betaClass(c.Annotations)
	return append(out, podspec.WarnClaim(&c.Spec, field.NewPath("spec"))...)
}
