package endpointslice

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// ServablePods returns the Pods that can be endpoints. The API refuses loopback and link-local
// addresses, and one such Pod must not keep the others out.
func ServablePods(pods []*corev1.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range pods {
		if hasReachableAddress(p) {
			out = append(out, p)
		}
	}
	return out
}

func hasReachableAddress(p *corev1.Pod) bool {
	for _, ip := range p.Status.PodIPs {
		a, err := netip.ParseAddr(ip.IP)
		if err == nil && (a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified()) {
			return false
		}
	}
	return true
}
