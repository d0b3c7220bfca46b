// Package defaultclass finds the class that objects get which name none: of StorageClasses,
// IngressClasses, and what else has a default by annotation.
//
// In: the classes and the annotations that mark a default. Out: the one that counts.
package defaultclass

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NewestDefault returns the newest object that one of the annotations marks with "true", the first
// by name among equally new ones; false when none is marked.
func NewestDefault[T metav1.Object](list []T, marks ...string) (newest T, ok bool) {
	for _, c := range list {
		if !hasTrueAnnotation(c, marks) {
			continue
		}
		at := c.GetCreationTimestamp()
		if ok {
			best := newest.GetCreationTimestamp()
			if at.Before(&best) || at.Equal(&best) && c.GetName() > newest.GetName() {
				continue
			}
		}
		newest, ok = c, true
	}
	return newest, ok
}

func hasTrueAnnotation(c metav1.Object, marks []string) bool {
	for _, m := range marks {
		if c.GetAnnotations()[m] == "true" {
			return true
		}
	}
	return false
}
