package rules

import (
	"cmp"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// candidate is an endpoint with its conditions and hints.
type candidate struct {
	Endpoint
	ready, serving, terminating bool
	hints                       *discoveryv1.EndpointHints
}

// categorizeEndpoints sets the port's endpoints: the ready ones, or if none is ready those that
// terminate but still serve (KEP-1669), filtered by topology hints.
func (p *ServicePort) categorizeEndpoints(in Input, family Family) {
	all := candidates(in, p, family)
	hinted := availableForTopology(all, in.Node)
	p.ClusterEndpoints = filterEndpoints(all, func(c *candidate) bool { return c.ready && hinted(c) })
	if len(p.ClusterEndpoints) == 0 {
		p.ClusterEndpoints = filterEndpoints(all, func(c *candidate) bool { return c.serving && c.terminating })
	}
	p.LocalEndpoints = filterEndpoints(all, func(c *candidate) bool { return c.ready && c.IsLocal })
	if p.LocalEndpointsReady = len(p.LocalEndpoints) > 0; !p.LocalEndpointsReady {
		p.LocalEndpoints = filterEndpoints(all,
			func(c *candidate) bool { return c.serving && c.terminating && c.IsLocal })
	}
	p.AnyEndpoint = len(p.ClusterEndpoints) > 0 || len(p.LocalEndpoints) > 0
}

func filterEndpoints(all []candidate, take func(*candidate) bool) []Endpoint {
	var out []Endpoint
	for i := range all {
		if take(&all[i]) {
			out = append(out, all[i].Endpoint)
		}
	}
	return out
}

// availableForTopology returns a filter by the hints of trafficDistribution (KEP-3015, KEP-4444):
// this node's endpoints, else its zone's, provided that every ready endpoint has a hint and one
// fits.
func availableForTopology(all []candidate, node Node) func(*candidate) bool {
	forNode := func(c *candidate) bool {
		return c.hints != nil && slices.ContainsFunc(c.hints.ForNodes,
			func(n discoveryv1.ForNode) bool { return n.Name == node.Name })
	}
	forZone := func(c *candidate) bool {
		return c.hints != nil && slices.ContainsFunc(c.hints.ForZones,
			func(z discoveryv1.ForZone) bool { return z.Name == node.Zone })
	}
	everyNode, everyZone, oneNode, oneZone := true, node.Zone != "", false, false
	for i := range all {
		c := &all[i]
		if !c.ready {
			continue
		}
		everyNode = everyNode && c.hints != nil && len(c.hints.ForNodes) > 0
		everyZone = everyZone && c.hints != nil && len(c.hints.ForZones) > 0
		oneNode = oneNode || forNode(c)
		oneZone = oneZone || forZone(c)
	}
	switch {
	case everyNode && oneNode:
		return forNode
	case everyZone && oneZone:
		return forZone
	}
	return func(*candidate) bool { return true }
}

// candidates returns all endpoints of the port, one per address, sorted.
func candidates(in Input, p *ServicePort, family Family) []candidate {
	var out []candidate
	for _, slice := range in.Slices {
		if slice.AddressType != discoveryv1.AddressType(map[Family]string{IPv4: "IPv4", IPv6: "IPv6"}[family]) {
			continue
		}
		number, ok := slicePort(slice, p)
		if !ok {
			continue
		}
		for i := range slice.Endpoints {
			if c, ok := parseEndpoint(&slice.Endpoints[i], in.Node, family); ok {
				c.AddrPort = netip.AddrPortFrom(c.Addr(), number)
				out = append(out, c)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b candidate) int {
		return cmp.Or(a.Compare(b.AddrPort), candidateRank(a)-candidateRank(b))
	})
	return slices.CompactFunc(out, func(a, b candidate) bool { return a.AddrPort == b.AddrPort })
}

// candidateRank orders what several slices say of one address, best first: an address may briefly
// be in an old and a new slice.
func candidateRank(c candidate) int {
	switch {
	case c.ready:
		return 0
	case c.serving:
		return 1
	}
	return 2
}

// slicePort is the number that the slice gives the ServicePort; false if it has no such port.
func slicePort(slice *discoveryv1.EndpointSlice, p *ServicePort) (uint16, bool) {
	for _, sp := range slice.Ports {
		name, protocol := "", "TCP"
		if sp.Name != nil {
			name = *sp.Name
		}
		if sp.Protocol != nil {
			protocol = string(*sp.Protocol)
		}
		if sp.Port == nil || name != p.Name || protocol != protocolNames[p.Protocol] {
			continue
		}
		return portNumber(*sp.Port)
	}
	return 0, false
}

var protocolNames = map[string]string{"tcp": string(v1.ProtocolTCP), "udp": string(v1.ProtocolUDP),
	"sctp": string(v1.ProtocolSCTP)}

// parseEndpoint reads an endpoint of the family; false if it has no such address. Conditions that
// are absent count as ready and serving.
func parseEndpoint(e *discoveryv1.Endpoint, node Node, family Family) (candidate, bool) {
	if len(e.Addresses) == 0 {
		return candidate{}, false
	}
	ip, ok := address(e.Addresses[0], family)
	if !ok {
		return candidate{}, false
	}
	c := candidate{hints: e.Hints}
	c.AddrPort = netip.AddrPortFrom(ip, 0)
	c.IsLocal = e.NodeName != nil && *e.NodeName == node.Name
	if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
		c.Pod, c.UID = e.TargetRef.Name, string(e.TargetRef.UID)
	}
	yes := func(b *bool) bool { return b == nil || *b }
	c.ready, c.serving = yes(e.Conditions.Ready), yes(e.Conditions.Serving)
	c.terminating = e.Conditions.Terminating != nil && *e.Conditions.Terminating
	return c, true
}
