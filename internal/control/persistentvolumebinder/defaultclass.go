package persistentvolumebinder

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/volume"
)

// isDefault tells whether a class is for claims that name none.
func isDefault(c *storagev1.StorageClass) bool {
	return c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" ||
		c.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true"
}

// DefaultClass is the class of claims that name none: of several the newest, then the first by
// name; nil if there is none.
func DefaultClass(all []*storagev1.StorageClass) *storagev1.StorageClass {
	defaults := slices.DeleteFunc(slices.Clone(all), func(c *storagev1.StorageClass) bool { return !isDefault(c) })
	if len(defaults) == 0 {
		return nil
	}
	return slices.MinFunc(defaults, func(a, b *storagev1.StorageClass) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// withDefaultClass gives a claim that was made when there was no default class the one that there
// is now; false: it says which it wants, or there is none.
func withDefaultClass(c *v1.PersistentVolumeClaim, in In) (Step, bool) {
	if in.Default == nil || volume.PersistentVolumeClaimHasClass(c) {
		return Step{}, false
	}
	s := Step{Claim: c.DeepCopy()}
	s.Claim.Spec.StorageClassName = &in.Default.Name
	return s, true
}
