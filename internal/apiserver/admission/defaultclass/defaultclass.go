// Package defaultclass is what the admission plugins DefaultStorageClass and DefaultIngressClass
// share: a new object that names no class gets the one that an annotation marks as the default.
//
// In: a Rule (which objects, which classes, which annotations). Out: an admission plugin. To add
// one: a package beside defaultstorageclass with a Rule, and a line in admission.Plugins.
package defaultclass

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NewestDefault returns the newest object that has one of the annotations with the value "true",
// the first by name among equally new ones; false if there is none.
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

// hasTrueAnnotation reports whether one of the annotations is "true".
func hasTrueAnnotation(c metav1.Object, marks []string) bool {
	for _, m := range marks {
		if c.GetAnnotations()[m] == "true" {
			return true
		}
	}
	return false
}
