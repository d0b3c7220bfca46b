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

// IsClaim tells whether a claim stands between the Pod and the volume.
func IsClaim(v *corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil }

// HasClaims tells whether the Pod has a volume of a claim.
func HasClaims(p *corev1.Pod) bool {
	for i := range p.Spec.Volumes {
		if IsClaim(&p.Spec.Volumes[i]) {
			return true
		}
	}
	return false
}

// ClaimKeys are the claims of a Pod as namespace/name, in the order of its volumes; none of another
// object. An index of Pods by claim takes it.
func ClaimKeys(o any) []string {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	var keys []string
	for i := range p.Spec.Volumes {
		if name, _ := ClaimName(p, &p.Spec.Volumes[i]); name != "" {
			keys = append(keys, p.Namespace+"/"+name)
		}
	}
	return keys
}
