package core

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/template"
)

// validateClaimUpdate keeps a claim as it was made, but for the volume's name once, a class where there was none, and a bound claim's size.
func validateClaimUpdate(c, old *v1.PersistentVolumeClaim) field.ErrorList {
	errs := template.ValidateClaim(&c.Spec, field.NewPath("spec"))
	now, was := c.DeepCopy(), old.DeepCopy()
	if was.Spec.VolumeName == "" {
		was.Spec.VolumeName = now.Spec.VolumeName
	}
	if _, annotated := old.Annotations[v1.BetaStorageClassAnnotation]; !annotated && was.Spec.StorageClassName == nil && old.Spec.VolumeName == "" {
		was.Spec.StorageClassName = now.Spec.StorageClassName
	}
	oldSize, newSize := old.Spec.Resources.Requests[v1.ResourceStorage], c.Spec.Resources.Requests[v1.ResourceStorage]
	if c.Status.Phase == v1.ClaimBound {
		if now.Spec.Resources.Requests != nil {
			now.Spec.Resources.Requests[v1.ResourceStorage] = oldSize
		}
		now.Spec.VolumeAttributesClassName = was.Spec.VolumeAttributesClassName
	}
	if !apiequality.Semantic.DeepEqual(now.Spec, was.Spec) {
		errs = append(errs, field.Forbidden(field.NewPath("spec"),
			fmt.Sprintf("spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n%v", diff.Diff(was.Spec, now.Spec))))
	}
	if has := old.Status.Capacity[v1.ResourceStorage]; newSize.Cmp(oldSize) < 0 && newSize.Cmp(has) <= 0 {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "resources", "requests", "storage"), "field can not be less than status.capacity"))
	}
	return append(errs, validation.ValidateImmutableField(c.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
}

func validateClaimStatus(c, _ *v1.PersistentVolumeClaim) field.ErrorList {
	var errs field.ErrorList
	if len(c.Spec.AccessModes) == 0 {
		errs = append(errs, field.Required(field.NewPath("Spec", "accessModes"), ""))
	}
	for _, k := range template.SortedResources(c.Status.Capacity) {
		if q := c.Status.Capacity[k]; q.Sign() <= 0 {
			errs = append(errs, field.Invalid(field.NewPath("status", "capacity").Key(string(k)), q.String(), "must be greater than zero"))
		}
	}
	return errs
}

func warnClaim(c *v1.PersistentVolumeClaim) []string {
	out := betaClass(c.Annotations)
	if q, ok := c.Spec.Resources.Requests[v1.ResourceStorage]; ok && q.MilliValue()%1000 != 0 {
		out = append(out, fmt.Sprintf("spec.resources.requests[storage]: fractional byte value %q is invalid, must be an integer", q.String()))
	}
	return out
}
