package volume

import (
	"reflect"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Spec is a volume of a Pod together with what is behind it, as upstream's volume.Spec.
type Spec struct {
	Volume *v1.Volume // as in the Pod's spec.volumes
	// PersistentVolume is what its claim is bound to, or what stands for a volume that is Migrated;
	// nil for others.
	PersistentVolume *v1.PersistentVolume
	ReadOnly         bool               // the Pod uses the claim for reading only
	ClaimSize        *resource.Quantity // what the claim's status says it has; nil without claim
	Migrated         bool               // the API object names a volume plugin that a CSI driver took over
}

// Name is the PersistentVolume's, or the volume's own when it has no claim.
func (s Spec) Name() string {
	if s.PersistentVolume != nil {
		return s.PersistentVolume.Name
	}
	return s.Volume.Name
}

// Block tells whether the volume is a block device (volumeMode Block).
func (s Spec) Block() bool {
	return s.PersistentVolume != nil && s.PersistentVolume.Spec.VolumeMode != nil &&
		*s.PersistentVolume.Spec.VolumeMode == v1.PersistentVolumeBlock
}

// ClaimName is the name of the claim of a volume that pod.IsClaim, in the Pod's namespace.
func ClaimName(pod *v1.Pod, v *v1.Volume) string {
	if c := v.PersistentVolumeClaim; c != nil {
		return c.ClaimName
	}
	return pod.Name + "-" + v.Name
}

// Kind is the field of the volume's source, like configMap; emptyDir when it has none.
func Kind(v *v1.Volume) string {
	if k := sourceField(v.VolumeSource); k != "" {
		return k
	}
	return "emptyDir"
}

// sourceField is the JSON name of the first field of a struct of pointers that is set.
func sourceField(source any) string {
	s := reflect.ValueOf(source)
	for i := range s.NumField() {
		if f := s.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			name := s.Type().Field(i).Tag.Get("json")
			for j := range name {
				if name[j] == ',' {
					return name[:j]
				}
			}
			return name
		}
	}
	return ""
}
