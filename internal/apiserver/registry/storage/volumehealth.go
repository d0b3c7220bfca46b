package storage

import (
	"context"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// Bounds of what a driver says, as upstream has them.
const (
	maxHealthConditions = 16
	maxReasonBytes      = 256
	maxMessageBytes     = 1024
)

// WithVolumeHealth lets the statuses of Pods, claims and CSINodes say what CSI drivers say of
// volumes: with the gate CSIVolumeHealth off, those fields are dropped on write by the kinds' own
// rules.
func WithVolumeHealth(all []resourcedef.Kind) {
	for i := range all {
		k := &all[i]
		if k.Types.New == nil {
			continue
		}
		switch k.Types.New().(type) {
		case *v1.Pod:
			keepHealth(&k.Rules, func(p *v1.Pod) *[]v1.PodVolumeHealth { return &p.Status.VolumeHealth },
				validatePodHealth)
		case *v1.PersistentVolumeClaim:
			keepHealth(&k.Rules, func(c *v1.PersistentVolumeClaim) **v1.VolumeHealthStatus {
				return &c.Status.HealthStatus
			}, validateClaimHealth)
		case *storagev1.CSINode:
			keepHealth(&k.Rules, func(n *storagev1.CSINode) *[]storagev1.StorageHealth {
				return &n.Status.StorageHealth
			}, validateStorageHealth)
		}
	}
}

// keepHealth puts the field back that the rules for statuses drop, and validates it.
func keepHealth[T, F any](r *resourcedef.Rules, at func(*T) *F, check func(*T) field.ErrorList) {
	prepare, validate := r.PrepareStatus, r.ValidateStatus
	r.PrepareStatus = func(ctx context.Context, obj, old runtime.Object) {
		kept := *at(any(obj).(*T))
		if prepare != nil {
			prepare(ctx, obj, old)
		}
		*at(any(obj).(*T)) = kept
	}
	r.ValidateStatus = func(ctx context.Context, obj, old runtime.Object) field.ErrorList {
		var errs field.ErrorList
		if validate != nil {
			errs = validate(ctx, obj, old)
		}
		return append(errs, check(any(obj).(*T))...)
	}
}

// validatePodHealth wants volumes that the Pod has, each once.
func validatePodHealth(p *v1.Pod) field.ErrorList {
	var f typed.Errors
	names, seen := sets.New[string](), sets.New[string]()
	for _, v := range p.Spec.Volumes {
		names.Insert(v.Name)
	}
	for i, h := range p.Status.VolumeHealth {
		at := field.NewPath("status", "volumeHealth").Index(i)
		switch {
		case h.Name == "":
			f.Required(at.Child("name"), "")
		case !names.Has(h.Name):
			f.Add(field.NotFound(at.Child("name"), h.Name))
		}
		if seen.Has(h.Name) {
			f.Add(field.Duplicate(at, h.Name))
		}
		seen.Insert(h.Name)
		volumeConditions(&f, at.Child("healthConditions"), h.HealthConditions)
	}
	return f.List()
}

func validateClaimHealth(c *v1.PersistentVolumeClaim) field.ErrorList {
	var f typed.Errors
	if h := c.Status.HealthStatus; h != nil {
		volumeConditions(&f, field.NewPath("status", "healthStatus", "healthConditions"), h.HealthConditions)
	}
	return f.List()
}

// volumeConditions wants at most sixteen conditions, each pair of status and reason once.
func volumeConditions(f *typed.Errors, path *field.Path, list []v1.VolumeHealthCondition) {
	if len(list) > maxHealthConditions {
		f.Add(field.TooMany(path, len(list), maxHealthConditions))
		return
	}
	seen := sets.New[[2]string]()
	for i, c := range list {
		at := path.Index(i)
		if id := [2]string{string(c.Status), c.Reason}; seen.Has(id) {
			f.Add(field.Duplicate(at, c))
		} else {
			seen.Insert(id)
		}
		if c.Status == "" {
			f.Required(at.Child("status"), "")
		} else {
			typed.Supported(f, at.Child("status"), c.Status, v1.VolumeHealthDataLoss, v1.VolumeHealthDegraded,
				v1.VolumeHealthInaccessible)
		}
		healthReason(f, at, c.Reason)
		if len(c.Message) > maxMessageBytes {
			f.Add(field.TooLong(at.Child("message"), c.Message, maxMessageBytes))
		}
	}
}

// healthReason wants a reason as conditions have.
func healthReason(f *typed.Errors, at *field.Path, text string) {
	at = at.Child("reason")
	if text == "" {
		f.Required(at, "")
		return
	}
	f.InvalidEach(at, text, metav1validation.IsValidConditionReason(text))
	if len(text) > maxReasonBytes {
		f.Add(field.TooLong(at, text, maxReasonBytes))
	}
}

// validateStorageHealth wants drivers, each once, with at most sixteen conditions.
func validateStorageHealth(n *storagev1.CSINode) field.ErrorList {
	var f typed.Errors
	seen := sets.New[string]()
	for i, h := range n.Status.StorageHealth {
		at := field.NewPath("status", "storageHealth").Index(i)
		if seen.Has(h.Name) {
			f.Add(field.Duplicate(at, h.Name))
		}
		seen.Insert(h.Name)
		if h.Name == "" {
			f.Required(at.Child("name"), "")
		} else {
			f.Add(podspec.ValidateDriverName(h.Name, at.Child("name"))...)
		}
		if path := at.Child("healthConditions"); len(h.HealthConditions) > maxHealthConditions {
			f.Add(field.TooMany(path, len(h.HealthConditions), maxHealthConditions))
		} else {
			for k, c := range h.HealthConditions {
				storageCondition(&f, path.Index(k), c)
			}
		}
	}
	return f.List()
}

func storageCondition(f *typed.Errors, at *field.Path, c storagev1.StorageHealthCondition) {
	typed.Supported(f, at.Child("status"), c.Status, storagev1.StorageDegraded, storagev1.StorageUnreachable)
	healthReason(f, at, c.Reason)
	if len(c.Message) > maxMessageBytes {
		f.Add(field.TooLong(at.Child("message"), c.Message, maxMessageBytes))
	}
	if m := c.AccessMode; m != nil {
		typed.Supported(f, at.Child("accessMode"), *m, v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOnce,
			v1.ReadWriteOncePod)
	}
	if m := c.VolumeMode; m != nil {
		typed.Supported(f, at.Child("volumeMode"), *m, v1.PersistentVolumeFilesystem, v1.PersistentVolumeBlock)
	}
}
