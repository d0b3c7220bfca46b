package rules

import (
	"maps"
	"net/netip"
	"slices"
)

// Family is an IP family in nftables' spelling.
type Family string

// The IP families; each has a table of its own.
const (
	IPv4 Family = "ip"
	IPv6 Family = "ip6"
)

// Has reports whether a is of the family.
func (f Family) Has(a netip.Addr) bool { return a.IsValid() && a.Is4() == (f == IPv4) }

func (f Family) addrType() string {
	if f == IPv4 {
		return "ipv4_addr"
	}
	return "ipv6_addr"
}

// Settings are the parts of the configuration that shape rules.
type Settings struct {
	Family Family
	// MasqueradeBit is the bit of the packet mark, 0 to 31, that requests masquerading.
	MasqueradeBit int
	// MasqueradeAll masquerades all traffic to cluster IPs.
	MasqueradeAll bool
	// LocalDetector detects Pods' traffic; other traffic to cluster IPs is masqueraded. The zero
	// value detects nothing.
	LocalDetector LocalTrafficDetector
	// NodePorts limits node ports to the node's addresses in these ranges; empty: all addresses.
	NodePorts []netip.Prefix
	// ConfineInterfaces are the interfaces from which cluster IPs may be reached, besides the node
	// itself; empty: all. Instances of Gantry on one machine use the same addresses for different
	// Services, each on its own bridge.
	ConfineInterfaces []string
}

// LocalTrafficDetector detects traffic of local Pods by source range or by input interface.
type LocalTrafficDetector struct {
	Ranges    []netip.Prefix
	Interface string // may end in *
}

// Element identifies an element of a set or map.
type Element struct {
	Set string
	Key string // parts joined by " . "
}

// State is a part of a table: chains by name with their rules in order, affinity sets with their
// timeout in seconds, elements with their verdict ("" in sets).
type State struct {
	Chains   map[string][]string
	Affinity map[string]int32
	Elements map[Element]string
}

// NewState returns an empty state.
func NewState() State {
	return State{Chains: map[string][]string{}, Affinity: map[string]int32{}, Elements: map[Element]string{}}
}

// Add copies o into s; an element that s has already keeps its verdict.
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
