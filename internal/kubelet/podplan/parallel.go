package podplan

import v1 "k8s.io/api/core/v1"

// canPrepareInParallel tells whether the Pod's sandbox may be made while its volumes are: nothing
// of the Pod is there yet, nothing has failed, and its volumes come from the API and this node
// alone, so that they are there or have failed long before the sandbox is. Otherwise a Pod whose
// volumes are waited for would be seen to have a sandbox and an address, which upstream's has not.
func canPrepareInParallel(in In) bool {
	if len(in.Tries)+len(in.Observed.Sandboxes)+len(in.Observed.Containers) > 0 {
		return false
	}
	for i := range in.Pod.Spec.Volumes {
		if !isQuickVolume(&in.Pod.Spec.Volumes[i].VolumeSource) {
			return false
		}
	}
	return true
}

func isQuickVolume(v *v1.VolumeSource) bool {
	if v.Projected == nil {
		return v.EmptyDir != nil || v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil
	}
	for _, s := range v.Projected.Sources {
		if s.ClusterTrustBundle != nil || s.PodCertificate != nil {
			return false
		}
	}
	return true
}
