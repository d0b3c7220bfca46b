package rules

import (
	"maps"
	"net/netip"
	"slices"
)

// Family is an address family in nftables' words.
type Family string

// The two families; each has a table of its own.
const (
	IPv4 Family = "ip"
	IPv6 Family = "ip6"
)

// Has tells whether an address is of the family.
func (f Family) Has(a netip.Addr) bool { return a.IsValid() && a.Is4() == (f == IPv4) }

func (f Family) addrType() string {
	if f == IPv4 {
		return "ipv4_addr"
	}
	return "ipv6_addr"
}

// Settings are what of the configuration shapes rules.
type Settings struct {
	Family Family
	// MasqueradeBit is the bit of the packet mark that asks for masquerading, 0 to 31.
	MasqueradeBit int
	// MasqueradeAll masquerades everything that comes to a cluster IP.
	MasqueradeAll bool
	// LocalDetector tells Pods' traffic from others'; others' to a cluster IP is masqueraded. The
	// zero value tells nothing apart.
	LocalDetector LocalTrafficDetector
	// NodePorts limits node ports to the node's addresses in these ranges; empty means all of its
	// addresses.
	NodePorts []netip.Prefix
	// ConfineInterfaces lists the interfaces from which cluster IPs may be asked for, besides the
	// node itself; empty means all. Instances of Gantry on one machine use the same addresses for
	// different Services, each on its own bridge.
	ConfineInterfaces []string
}

// LocalTrafficDetector says which traffic is Pods': by source range or by the interface it comes
// from.
type LocalTrafficDetector struct {
	Ranges    []netip.Prefix
	Interface string // may end in *
}

// Element is one element of a set or map.
type Element struct {
	Set string
	Key string // parts joined by " . "
}

// State is a part of a table: chains by name with their rules in order, dynamic sets with their
// timeout in seconds, elements with their verdict (empty in plain sets).
type State struct {
	Chains   map[string][]string
	Affinity map[string]int32
	Elements map[Element]string
}

// NewState is an empty one.
func NewState() State {
	return State{Chains: map[string][]string{}, Affinity: map[string]int32{}, Elements: map[Element]string{}}
}

// Add copies another state's parts in; of an element that both have, the receiver's stays.
func (s State) Add(o State) {
	maps.Copy(s.Chains, o.Chains)
	maps.Copy(s.Affinity, o.Affinity)
	for e, v := range o.Elements {
		if _, taken := s.Elements[e]; !taken {
			s.Elements[e] = v
		}
	}
}

func sorted[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
