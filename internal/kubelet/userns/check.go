package userns

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// Requested tells whether the Pod wants users of its own.
func Requested(pod *v1.Pod) bool { return pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers }

// Check refuses a Pod that wants users of its own and shares a namespace of the host that these
// could not act in. The API server refuses such Pods; static ones do not pass there.
func Check(pod *v1.Pod) error {
	if !Requested(pod) {
		return nil
	}
	for _, shared := range []struct {
		field string
		on    bool
	}{{"hostNetwork", pod.Spec.HostNetwork}, {"hostPID", pod.Spec.HostPID}, {"hostIPC", pod.Spec.HostIPC}} {
		if shared.on {
			return fmt.Errorf("spec.%s: Forbidden: when `hostUsers` is false: set one of the two", shared.field)
		}
	}
	return nil
}
