package routes

import (
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"slices"
)

// VTEPAnnotation is the Node annotation with the MAC address of its VXLAN device.
const VTEPAnnotation = "gantry.dev/vtep-mac"

// VXLANOverhead is the bytes of outer Ethernet, IPv4, UDP and VXLAN headers. Over IPv6 it is 20
// more.
const VXLANOverhead = 50

// Mode is how other nodes are reached.
type Mode string

// Modes of --node-routes.
const (
	Auto   Mode = "auto"   // routes to nodes on the same segment, VXLAN to others
	Direct Mode = "direct" // routes only; nodes on other segments are not handled
	VXLAN  Mode = "vxlan"  // VXLAN to all nodes
)

// ParseMode parses --node-routes.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case Auto, Direct, VXLAN:
		return m, nil
	}
	return "", fmt.Errorf("--node-routes %q: must be auto, direct or vxlan", s)
}

// Node is one node of the cluster.
type Node struct {
	Name         string
	Address      netip.Addr // at which other nodes reach it
	OtherAddress netip.Addr // its address of the other IP family; invalid: none
	Ranges       []netip.Prefix
	VTEP         net.HardwareAddr // nil: it has no VXLAN device
	Reachability *Reachability    // nil: it does not publish one
}

// Route is the route to a Pod CIDR of another node.
type Route struct {
	Dst    netip.Prefix
	Via    netip.Addr
	Tunnel bool
}

// Neighbour is a node's VXLAN device: its address in the tunnel, its MAC, and the node address to
// which packets are sent.
type Neighbour struct {
	IP   netip.Addr
	MAC  string
	Node netip.Addr
}

// DesiredState is the routes, neighbours and addresses that this node should have.
type DesiredState struct {
	Routes     []Route
	Neighbours []Neighbour
	// TunnelAddresses are this node's addresses on the tunnel device; none: no device is needed.
	TunnelAddresses []netip.Addr
}

// In is the input of Plan.
type In struct {
	Self   Node
	Others []Node
	Mode   Mode
	// Cluster is the cluster CIDRs; ranges outside of them are ignored.
	Cluster []netip.Prefix
	// OnLink are the node addresses that this node reaches without a gateway. They are used if one
	// of the two nodes publishes no Reachability.
	OnLink map[netip.Addr]bool
}

// Plan decides how to reach each other node's Pods. If two nodes claim overlapping ranges, as
// during a node's renaming, the first by name gets it.
func Plan(in In) DesiredState {
	var w DesiredState
	others := slices.Clone(in.Others)
	slices.SortFunc(others, func(a, b Node) int { return compare(a.Name, b.Name) })
	taken := slices.Clone(in.Self.Ranges)
	for _, n := range others {
		if n.Name == in.Self.Name || !n.Address.IsValid() || n.Address == in.Self.Address {
			continue
		}
		for _, r := range n.Ranges {
			if !within(r, in.Cluster) || slices.ContainsFunc(taken, r.Overlaps) {
				continue
			}
			route, ok := in.route(n, r)
			if !ok {
				continue
			}
			taken = append(taken, r)
			w.Routes = append(w.Routes, route)
			if route.Tunnel {
				w.Neighbours = append(w.Neighbours, Neighbour{route.Via, n.VTEP.String(), n.Address})
			}
		}
	}
	if in.Mode != Direct && (len(w.Neighbours) > 0 || in.Mode == VXLAN) {
		for _, r := range in.Self.Ranges {
			w.TunnelAddresses = append(w.TunnelAddresses, TunnelAddress(r))
		}
	}
	return w
}

func (in In) route(n Node, r netip.Prefix) (Route, bool) {
	mode, near := in.Mode, func(a netip.Addr) bool { return in.OnLink[a] }
	if in.Self.Reachability != nil && n.Reachability != nil { // both ends decide alike
		mode, near = agreedMode(in.Mode, n.Reachability.Mode),
			func(a netip.Addr) bool { return mutuallyOnLink(in.Self, n, a) }
	}
	for _, a := range []netip.Addr{n.Address, n.OtherAddress} {
		if mode != VXLAN && a.IsValid() && a.Is4() == r.Addr().Is4() && near(a) {
			return Route{Dst: r, Via: a}, true
		}
	}
	if mode == Direct || n.VTEP == nil {
		return Route{}, false
	}
	return Route{Dst: r, Via: TunnelAddress(r), Tunnel: true}, true
}

// TunnelAddress returns a node's address in the tunnel: the network address of its range, which no
// Pod and no bridge has.
func TunnelAddress(r netip.Prefix) netip.Addr { return r.Masked().Addr() }

func within(r netip.Prefix, cluster []netip.Prefix) bool {
	return slices.ContainsFunc(cluster,
		func(c netip.Prefix) bool { return c.Bits() <= r.Bits() && c.Contains(r.Addr()) })
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// MAC returns the MAC address of a node's VXLAN device. It depends only on the name, so it survives
// recreation of the device.
func MAC(node string) net.HardwareAddr {
	sum := sha256.Sum256([]byte("vtep " + node))
	return append(net.HardwareAddr{0x0e}, sum[:5]...)
}

// VNI returns the cluster's VXLAN network identifier, derived from its CIDRs, so that clusters on
// one segment do not mix.
func VNI(cluster []netip.Prefix) int {
	h := fnv.New32a()
	fmt.Fprint(h, cluster)
	return int(h.Sum32()%0xfffffe) + 1
}
