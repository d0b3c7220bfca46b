package routes

import (
	"net"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// NodeOf is the Node object as the network sees it, with its Pod ranges as read from its spec. What
// an annotation says that cannot be read counts as not said.
func NodeOf(n *v1.Node, ranges []netip.Prefix) Node {
	out := Node{Name: n.Name, Ranges: ranges}
	for i, a := range addressesOf(n) {
		if i == 0 {
			out.Address = a
		} else {
			out.OtherAddress = a
		}
	}
	if mac, err := net.ParseMAC(n.Annotations[VTEPAnnotation]); err == nil {
		out.VTEP = mac
	}
	if r, err := ParseReachability(n.Annotations[ReachabilityAnnotation]); err == nil {
		out.Reachability = &r
	}
	return out
}

// addressesOf are a Node's first internal address and its first of the other family.
func addressesOf(n *v1.Node) []netip.Addr {
	var out []netip.Addr
	for _, a := range n.Status.Addresses {
		ip, err := netip.ParseAddr(a.Address)
		if err == nil && a.Type == v1.NodeInternalIP && (len(out) == 0 || len(out) == 1 && out[0].Is4() != ip.Is4()) {
			out = append(out, ip)
		}
	}
	return out
}

// AffectsRoutes tells whether an update of a Node changes anything that NodeOf reads: heartbeats
// and labels do not.
func AffectsRoutes(before, after *v1.Node) bool {
	return !slices.Equal(before.Spec.PodCIDRs, after.Spec.PodCIDRs) ||
		!slices.Equal(addressesOf(before), addressesOf(after)) ||
		before.Annotations[VTEPAnnotation] != after.Annotations[VTEPAnnotation] ||
		before.Annotations[ReachabilityAnnotation] != after.Annotations[ReachabilityAnnotation]
}
