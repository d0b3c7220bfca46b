// Package storage holds the rows of storage.k8s.io/v1: StorageClass, VolumeAttributesClass,
// VolumeAttachment, CSIDriver, CSINode, CSIStorageCapacity. In: nothing. Out: rows for
// apiserver.Kinds, with v1.37's defaults, checks, immutable fields and columns.
package storage

import (
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// Kinds are the rows of this package.
func Kinds() []resourcedef.Kind {
	return []resourcedef.Kind{storageClasses(), attributesClasses(), volumeAttachments(), csiDrivers(), csiNodes(),
		csiStorageCapacities()}
}

func newKind(resource, kindName string, t resourcedef.Types, short ...string) resourcedef.Kind {
	t.NoGenerate = true
	return resourcedef.Kind{
		Group: storagev1.GroupName, Version: "v1", Resource: resource, Singular: strings.ToLower(kindName),
		Kind:  kindName,
		Names: resourcedef.Names{Short: short}, Types: t,
	}
}

func boolean(name, doc string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "boolean", Description: doc}
}

func spec() *field.Path { return field.NewPath("spec") }
