// Package defaultclass chooses the class of objects that name none: StorageClasses for claims,
// IngressClasses for Ingresses.
//
// In: classes with their annotations and creation times. Out: the default one. The admission
// plugins ask for new objects, the persistent volume binder for claims that were there before their
// class.
package defaultclass

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The annotations that mark a StorageClass as the default with the value "true".
const (
	Storage     = "storageclass.kubernetes.io/is-default-class"
	StorageBeta = "storageclass.beta.kubernetes.io/is-default-class"
)

// Marked reports whether an object has one of the annotations with the value "true".
func Marked(c metav1.Object, annotations ...string) bool {
	return slices.ContainsFunc(annotations, func(a string) bool { return c.GetAnnotations()[a] == "true" })
}

// Newest returns the newest object that has one of the annotations with the value "true", the first
// by name among equally new ones; false if there is none. It leaves the list as it is.
// https://kubernetes.io/docs/concepts/storage/storage-classes/#default-storageclass
func Newest[T metav1.Object](list []T, annotations ...string) (T, bool) {
	marked := slices.DeleteFunc(slices.Clone(list), func(c T) bool { return !Marked(c, annotations...) })
	if len(marked) == 0 {
		var none T
		return none, false
	}
	return slices.MinFunc(marked, func(a, b T) int {
		return cmp.Or(b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time), cmp.Compare(a.GetName(),
			b.GetName()))
	}), true
}
