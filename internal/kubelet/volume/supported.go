package volume

import (
	"fmt"
	"reflect"

	v1 "k8s.io/api/core/v1"
)

// Unprocessed marks an error about a volume that could not even be understood: its claim is not
// there, or not bound.
type Unprocessed struct{ Err error }

// Error is the text of the error.
func (u Unprocessed) Error() string { return u.Err.Error() }

// Unwrap is the error.
func (u Unprocessed) Unwrap() error { return u.Err }

// UnsupportedType says that no type of this node serves the volume, and what to use instead.
type UnsupportedType struct{ Kind, Fix string }

// Error names the kind.
func (u UnsupportedType) Error() string {
	return fmt.Sprintf("volumes of type %s are not served by this node", u.Kind)
}

// CheckSupported is the refusal of a volume that no type owns.
func CheckSupported(v *v1.Volume) error { return unsupported(Kind(v)) }

// CheckSourceSupported is the refusal of a PersistentVolume that no type serves.
func CheckSourceSupported(s *v1.PersistentVolumeSource) error { return unsupported(sourceField(*s)) }

func unsupported(kind string) error {
	fix := "use a claim whose volume is of type hostPath, local or nfs"
	switch kind {
	case "iscsi", "fc":
		fix = "attach the disk to the node and offer it as a local PersistentVolume, or use an nfs volume"
	case "gitRepo":
		fix = "clone the repository in an init container into an emptyDir"
	case "csi":
		fix = "CSI drivers are not served by this node: use hostPath, local or nfs"
	}
	return UnsupportedType{kind, fix}
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
