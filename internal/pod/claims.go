package pod

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"
)

// ClaimName is the name of the claim behind a Pod's volume; empty when there is none. made tells of
// a claim that is made for this Pod.
func ClaimName(p *corev1.Pod, v *corev1.Volume) (name string, made bool) {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName, false
	case v.Ephemeral != nil:
		return ephemeral.VolumeClaimName(p, v), true
	}
	return "", false
}
