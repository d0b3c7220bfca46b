package routes

import (
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"slices"
)

// VTEPAnnotation of a Node: the MAC address of its VXLAN end.
const VTEPAnnotation = "gantry.dev/vtep-mac"

// VXLANOverhead is what VXLAN takes of a packet: outer Ethernet, IP, UDP and VXLAN headers, in
// bytes. Over IPv6 it is 20 more.
const VXLANOverhead = 50

// Mode says how nodes are reached.
type Mode string

// Modes of --node-routes.
const (
	Auto   Mode = "auto"   // routes where a node is on the same segment, VXLAN otherwise
	Direct Mode = "direct" // routes alone; nodes elsewhere are somebody else's to reach
	VXLAN  Mode = "vxlan"  // everything through VXLAN
)

// ParseMode reads --node-routes.
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
	Address      netip.Addr // under which other nodes reach it
	OtherAddress netip.Addr // its address of the other family; invalid: it has none
	Ranges       []netip.Prefix
	VTEP         net.HardwareAddr // nil: it takes no VXLAN
	Reachability *Reachability    // nil: it does not say how it reaches others
}

// Route leads a range of Pods to a node.
type Route struct {
	Dst    netip.Prefix
	Via    netip.Addr
	Tunnel bool
}

// Neighbour is a node's end of the tunnel: its address there, its MAC, and where packets for it are
// sent.
type Neighbour struct {
	IP   netip.Addr
	MAC  string
	Node netip.Addr
}

// DesiredState is what this node should have.
type DesiredState struct {
	Routes     []Route
	Neighbours []Neighbour
	// TunnelAddresses are this node's addresses on the tunnel device; none: no device is needed.
	TunnelAddresses []netip.Addr
}

// In is what Plan looks at.
type In struct {
	Self   Node
	Others []Node
	Mode   Mode
	// Cluster are the ranges of all Pods: what lies outside is nobody's here.
	Cluster []netip.Prefix
	// OnLink are the addresses of nodes on a segment of this one, as it sees them; they count for
	// nodes that do not say what they see.
	OnLink map[netip.Addr]bool
}

// Plan decides how each other node's Pods are reached. Of two nodes that claim the same range, as
// happens while a Node of an old name is still there, the first by name has it.
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
	if in.Self.Reachability != nil && n.Reachability != nil { // both ends come to the same
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

// TunnelAddress is a node's address on the tunnel: the first of its range, which no Pod and no
// bridge has.
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

// MAC of a node's VXLAN end is made from its name, so that it stays when the device is made anew.
func MAC(node string) net.HardwareAddr {
	sum := sha256.Sum256([]byte("vtep " + node))
	return append(net.HardwareAddr{0x0e}, sum[:5]...)
}

// VNI is the cluster's network number, made from its range: clusters that share segments do not
// mix.
func VNI(cluster []netip.Prefix) int {
	h := fnv.New32a()
	fmt.Fprint(h, cluster)
	return int(h.Sum32()%0xfffffe) + 1
}
