package persistentvolumebinder

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/gantry-project/gantry/internal/defaultclass"
)

// isDefault tells whether a class is for claims that name none.
func isDefault(c *storagev1.StorageClass) bool {
	return defaultclass.Marked(c, defaultclass.Storage, defaultclass.StorageBeta)
}

// DefaultClass is the class of claims that name none; nil if there is none.
func DefaultClass(all []*storagev1.StorageClass) *storagev1.StorageClass {
	c, _ := defaultclass.Newest(all, defaultclass.Storage, defaultclass.StorageBeta)
	return c
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
