// Package storage holds the rows of storage.k8s.io/v1: StorageClass, VolumeAttributesClass, VolumeAttachment, CSIDriver, CSINode, CSIStorageCapacity.
//
// Chapter 1, written.
// In: nothing. Out: rows for apiserver.Kinds, with v1.37's defaults, checks, immutable fields and columns.
package storage

import (
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

// Kinds are the rows of this package.
func Kinds() []kind.Kind {
	return []kind.Kind{classes(), attributesClasses(), attachments(), drivers(), nodes(), capacities()}
}

func names(resource, kindName string, t kind.Types, short ...string) kind.Kind {
	t.NoGenerate = true
	return kind.Kind{
		Group: storagev1.GroupName, Version: "v1", Resource: resource, Singular: strings.ToLower(kindName), Kind: kindName,
		Names: kind.Names{Short: short}, Types: t,
	}
}

func boolean(name, doc string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "boolean", Description: doc}
}

func spec() *field.Path { return field.NewPath("spec") }
