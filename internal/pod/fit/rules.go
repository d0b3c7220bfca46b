package fit

import (
	"slices"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// anyHost is the host address of a port that names none.
const anyHost = "0.0.0.0"

// Untolerated finds the first taint with one of the effects that no toleration covers; false when
// all are covered.
func Untolerated(taints []v1.Taint, tolerations []v1.Toleration, effects ...v1.TaintEffect) (v1.Taint, bool) {
	for i := range taints {
		if slices.Contains(effects, taints[i].Effect) && !Tolerates(tolerations, &taints[i]) {
			return taints[i], true
		}
	}
	return v1.Taint{}, false
}

// Tolerates tells whether one of the tolerations covers the taint.
func Tolerates(tolerations []v1.Toleration, taint *v1.Taint) bool {
	for i := range tolerations {
		if tolerations[i].ToleratesTaint(logr.Discard(), taint, true) {
			return true
		}
	}
	return false
}

// NodeMatches tells whether the node satisfies spec.nodeSelector and the required node affinity.
// The error is about a selector that cannot be read.
func NodeMatches(p *v1.Pod, n *v1.Node) (bool, error) {
	return nodeaffinity.GetRequiredNodeAffinity(p).Match(n)
}

// PortConflict finds the first wanted host port that is taken: same protocol and number, same
// address or one of them on all addresses.
func PortConflict(want, have []v1.ContainerPort) (v1.ContainerPort, bool) {
	for _, w := range want {
		for _, h := range have {
			if w.HostPort > 0 && w.HostPort == h.HostPort && protocol(w) == protocol(h) && sameHost(address(w),
				address(h)) {
				return w, true
			}
		}
	}
	return v1.ContainerPort{}, false
}

func protocol(p v1.ContainerPort) v1.Protocol {
	if p.Protocol == "" {
		return v1.ProtocolTCP
	}
	return p.Protocol
}

func address(p v1.ContainerPort) string {
	if p.HostIP == "" {
		return anyHost
	}
	return p.HostIP
}

func sameHost(a, b string) bool { return a == b || a == anyHost || b == anyHost }
