package rules

import (
	"net/netip"
	"reflect"
	"slices"
)

// UDPFlows is the endpoints to which UDP flows may lead, by the requested address.
type UDPFlows struct {
	at   map[netip.AddrPort]map[netip.AddrPort]bool
	node map[uint16]map[netip.AddrPort]bool // by node port
}

// NewUDPFlows collects the UDP ports among ports.
func NewUDPFlows(ports []ServicePort) *UDPFlows {
	f := &UDPFlows{at: map[netip.AddrPort]map[netip.AddrPort]bool{}, node: map[uint16]map[netip.AddrPort]bool{}}
	// an address or node port may have moved from one Service to another: the one with endpoints
	// wins
	for _, there := range []bool{false, true} {
		for _, p := range ports {
			if ends := p.endpoints(); p.Protocol == "udp" && there == (len(ends) > 0) {
				f.add(p, ends)
			}
		}
	}
	return f
}

func (f *UDPFlows) add(p ServicePort, ends []Endpoint) {
	all := map[netip.AddrPort]bool{}
	for _, e := range ends {
		all[e.AddrPort] = true
	}
	for _, ip := range append(append([]netip.Addr{p.Addresses.Cluster}, p.Addresses.External...),
		p.Addresses.LoadBalancers...) {
		f.at[netip.AddrPortFrom(ip, p.Number)] = all
	}
	if p.NodePort != 0 {
		f.node[p.NodePort] = all
	}
}

// Empty reports whether there are no flows to look for.
func (f *UDPFlows) Empty() bool { return len(f.at)+len(f.node) == 0 }

// Stale reports whether a UDP flow sent to requested and answered by answers must be deleted.
func (f *UDPFlows) Stale(requested, answers netip.AddrPort) bool {
	if all, ok := f.at[requested]; ok {
		return !all[answers]
	}
	// A node port that was translated: flows to a socket of the node itself are left alone.
	if all, ok := f.node[requested.Port()]; ok && answers != requested {
		return !all[answers]
	}
	return false
}

// StaleUDPPorts returns the UDP ports of a Service for which flows may be stale after a change:
// ports that lost an endpoint or an address, that got their first endpoint, and removed ports,
// which come first, without endpoints.
func StaleUDPPorts(was, now []ServicePort) []ServicePort {
	var out []ServicePort
	for _, w := range was {
		if i := slices.IndexFunc(now, w.equal); w.Protocol == "udp" && (i < 0 || !reflect.DeepEqual(w.Addresses,
			now[i].Addresses) || w.NodePort != now[i].NodePort) {
			w.ClusterEndpoints, w.LocalEndpoints = nil, nil
			out = append(out, w)
		}
	}
	for _, n := range now {
		if n.Protocol != "udp" {
			continue
		}
		i := slices.IndexFunc(was, n.equal)
		if i < 0 || !reflect.DeepEqual(was[i].Addresses, n.Addresses) || was[i].NodePort != n.NodePort ||
			endpointRemoved(was[i].endpoints(), n.endpoints()) {
			out = append(out, n)
		}
	}
	return out
}

func (p ServicePort) equal(o ServicePort) bool {
	return p.Protocol == o.Protocol && p.Number == o.Number
}

func (p ServicePort) endpoints() []Endpoint {
	return slices.Concat(p.ClusterEndpoints, p.LocalEndpoints)
}

// endpointRemoved reports whether an endpoint is gone or the first one appeared.
func endpointRemoved(was, now []Endpoint) bool {
	return len(was) == 0 && len(now) > 0 || slices.ContainsFunc(was, func(w Endpoint) bool {
		return !slices.ContainsFunc(now, func(n Endpoint) bool { return n.AddrPort == w.AddrPort })
	})
}
