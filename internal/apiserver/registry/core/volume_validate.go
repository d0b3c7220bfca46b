package core

import (
	"fmt"
	"path"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/template"
)

func validateVolume(p *v1.PersistentVolume) field.ErrorList {
	var errs field.ErrorList
	s, spec := &p.Spec, field.NewPath("spec")
	if len(s.AccessModes) == 0 {
		errs = append(errs, field.Required(spec.Child("accessModes"), ""))
	}
	errs = append(errs, template.ValidateAccessModes(s.AccessModes, spec.Child("accessModes"))...)
	if len(s.Capacity) == 0 {
		errs = append(errs, field.Required(spec.Child("capacity"), ""))
	}
	if _, ok := s.Capacity[v1.ResourceStorage]; !ok || len(s.Capacity) > 1 {
		errs = append(errs, field.NotSupported(spec.Child("capacity"), s.Capacity, []v1.ResourceName{v1.ResourceStorage}))
	}
	for _, k := range template.SortedResources(s.Capacity) {
		if q := s.Capacity[k]; q.Sign() <= 0 {
			errs = append(errs, field.Invalid(spec.Child("capacity").Key(string(k)), q.String(), "must be greater than zero"))
		}
	}
	switch s.PersistentVolumeReclaimPolicy {
	case "", v1.PersistentVolumeReclaimDelete, v1.PersistentVolumeReclaimRecycle, v1.PersistentVolumeReclaimRetain:
	default:
		errs = append(errs, field.NotSupported(spec.Child("persistentVolumeReclaimPolicy"), s.PersistentVolumeReclaimPolicy,
			[]v1.PersistentVolumeReclaimPolicy{v1.PersistentVolumeReclaimDelete, v1.PersistentVolumeReclaimRecycle, v1.PersistentVolumeReclaimRetain}))
	}
	if a := s.NodeAffinity; a != nil {
		if a.Required == nil {
			errs = append(errs, field.Required(spec.Child("nodeAffinity", "required"), "must specify required node constraints"))
		} else {
			errs = append(errs, template.ValidateNodeSelector(a.Required, spec.Child("nodeAffinity", "required"))...)
		}
	}
	errs = append(errs, volumeSource(s, spec)...)
	if h := s.HostPath; h != nil && path.Clean(h.Path) == "/" && s.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimRecycle {
		errs = append(errs, field.Forbidden(spec.Child("persistentVolumeReclaimPolicy"), "may not be 'recycle' for a hostPath mount of '/'"))
	}
	if s.StorageClassName != "" {
		errs = append(errs, each(spec.Child("storageClassName"), s.StorageClassName, utilvalidation.IsDNS1123Subdomain(s.StorageClassName))...)
	}
	if m := s.VolumeMode; m != nil && *m != v1.PersistentVolumeBlock && *m != v1.PersistentVolumeFilesystem {
		errs = append(errs, field.NotSupported(spec.Child("volumeMode"), *m, []v1.PersistentVolumeMode{v1.PersistentVolumeBlock, v1.PersistentVolumeFilesystem}))
	}
	return errs
}

// volumeSource wants exactly one source, and judges those that Gantry's nodes mount.
func volumeSource(s *v1.PersistentVolumeSpec, spec *field.Path) field.ErrorList {
	var errs field.ErrorList
	n, v := 0, reflect.ValueOf(&s.PersistentVolumeSource).Elem()
	for i := range v.NumField() {
		if v.Field(i).IsNil() {
			continue
		}
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if n++; n > 1 {
			errs = append(errs, field.Forbidden(spec.Child(name), "may not specify more than 1 volume type"))
		}
	}
	switch {
	case n == 0:
		return field.ErrorList{field.Required(spec, "must specify a volume type")}
	case n > 1:
	case s.HostPath != nil:
		errs = append(errs, template.ValidateHostPath(s.HostPath, spec.Child("hostPath"))...)
	case s.NFS != nil:
		errs = append(errs, template.ValidateNFS(s.NFS, spec.Child("nfs"))...)
	case s.Local != nil:
		if s.Local.Path == "" {
			errs = append(errs, field.Required(spec.Child("local", "path"), ""))
		} else {
			errs = append(errs, template.ValidateNoBacksteps(s.Local.Path, spec.Child("local", "path"))...)
		}
		if s.NodeAffinity == nil {
			errs = append(errs, field.Required(spec.Child("nodeAffinity"), "Local volume requires node affinity"))
		}
	case s.CSI != nil:
		errs = append(errs, volumeCSI(s.CSI, spec.Child("csi"))...)
	}
	return errs
}

func volumeCSI(c *v1.CSIPersistentVolumeSource, path *field.Path) field.ErrorList {
	errs := template.ValidateDriverName(c.Driver, path.Child("driver"))
	if c.VolumeHandle == "" {
		errs = append(errs, field.Required(path.Child("volumeHandle"), ""))
	}
	for _, r := range []struct {
		child string
		ref   *v1.SecretReference
	}{
		{"controllerPublishSecretRef", c.ControllerPublishSecretRef}, {"controllerExpandSecretRef", c.ControllerExpandSecretRef},
		{"nodePublishSecretRef", c.NodePublishSecretRef}, {"nodeExpandSecretRef", c.NodeExpandSecretRef}, {"nodeStageSecretRef", c.NodeStageSecretRef},
	} {
		if r.ref == nil {
			continue
		}
		if r.ref.Name == "" {
			errs = append(errs, field.Required(path.Child(r.child, "name"), ""))
		}
		if r.ref.Namespace == "" {
			errs = append(errs, field.Required(path.Child(r.child, "namespace"), ""))
		}
	}
	return errs
}

func validateVolumeUpdate(p, old *v1.PersistentVolume) field.ErrorList {
	errs := validateVolume(p)
	now, was := p.Spec.PersistentVolumeSource.DeepCopy(), old.Spec.PersistentVolumeSource.DeepCopy()
	if now.CSI != nil && was.CSI != nil {
		// Secrets for expansion may be added where there were none.
		if was.CSI.ControllerExpandSecretRef == nil {
			now.CSI.ControllerExpandSecretRef = nil
		}
		if was.CSI.NodeExpandSecretRef == nil {
			now.CSI.NodeExpandSecretRef = nil
		}
	}
	if !apiequality.Semantic.DeepEqual(now, was) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "persistentvolumesource"), fmt.Sprintf("spec.persistentvolumesource is immutable after creation\n%v", diff.Diff(was, now))))
	}
	errs = append(errs, validation.ValidateImmutableField(p.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	if old.Spec.NodeAffinity != nil {
		errs = append(errs, validation.ValidateImmutableField(p.Spec.NodeAffinity, old.Spec.NodeAffinity, field.NewPath("nodeAffinity"))...)
	}
	return errs
}

func warnVolume(p *v1.PersistentVolume) []string {
	out := betaClass(p.Annotations)
	if p.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimRecycle {
		out = append(out, "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.")
	}
	if q, ok := p.Spec.Capacity[v1.ResourceStorage]; ok && q.MilliValue()%1000 != 0 {
		out = append(out, fmt.Sprintf("spec.capacity[storage]: fractional byte value %q is invalid, must be an integer", q.String()))
	}
	return out
}

// betaClass warns of the annotation that named a storage class once.
func betaClass(a map[string]string) []string {
	if _, ok := a[v1.BetaStorageClassAnnotation]; !ok {
		return nil
	}
	return []string{fmt.Sprintf("metadata.annotations[%s]: deprecated since v1.8; use \"storageClassName\" attribute instead", v1.BetaStorageClassAnnotation)}
}
