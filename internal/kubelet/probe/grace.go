package probe

import v1 "k8s.io/api/core/v1"

// Grace is how long a container may take to stop after its liveness or startup probe gave it up, in
// seconds: the probe's own terminationGracePeriodSeconds, else the Pod's, else 30.
func Grace(pod *v1.Pod, c *v1.Container, k Kind) int64 {
	if p := ProbeOf(c, k); p != nil && k != Readiness && p.TerminationGracePeriodSeconds != nil {
		return *p.TerminationGracePeriodSeconds
	}
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		return *pod.Spec.TerminationGracePeriodSeconds
	}
	return v1.DefaultTerminationGracePeriodSeconds
}
