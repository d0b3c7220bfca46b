package rules

import (
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Node is this node, as far as rules depend on it.
type Node struct {
	Name string
	Zone string // its label topology.kubernetes.io/zone
}

// Input is one Service with its EndpointSlices.
type Input struct {
	Service *v1.Service
	Slices  []*discoveryv1.EndpointSlice
	Node    Node
}

// ServicePort is one port of one Service in one IP family: its addresses and its endpoints.
type ServicePort struct {
	Service   types.NamespacedName
	Name      string // may be empty
	Protocol  string // tcp, udp, sctp
	Number    uint16
	NodePort  uint16
	Addresses Addresses
	// Affinity is the timeout of ClientIP session affinity in seconds; 0: none.
	Affinity int32
	// InternalLocal and ExternalLocal: the traffic policy is Local.
	InternalLocal bool
	ExternalLocal bool
	// ClusterEndpoints and LocalEndpoints are the endpoints for the policies Cluster and Local,
	// sorted. AnyEndpoint: there is an endpoint on some node.
	ClusterEndpoints []Endpoint
	LocalEndpoints   []Endpoint
	AnyEndpoint      bool
	// LocalEndpointsReady: LocalEndpoints are ready. Otherwise they are terminating and still
	// serving, which health-check node ports do not count.
	LocalEndpointsReady bool
}

// Addresses are the addresses of a Service.
type Addresses struct {
	Cluster       netip.Addr
	External      []netip.Addr
	LoadBalancers []netip.Addr
	// Sources is loadBalancerSourceRanges of the family; nil: no limit; empty: nobody of this
	// family is allowed.
	Sources []netip.Prefix
}

// Endpoint is one address and port of an EndpointSlice.
type Endpoint struct {
	netip.AddrPort
	IsLocal bool   // it is on this node
	Pod     string // name of its Pod in the Service's namespace; "" if there is none
	UID     string // the Pod's UID
}

// Proxied reports whether the proxy serves s: it has a cluster IP and no service-proxy-name.
func Proxied(s *v1.Service) bool {
	_, other := s.Labels["service.kubernetes.io/service-proxy-name"]
	return !other && s.Spec.Type != v1.ServiceTypeExternalName && s.Spec.ClusterIP != "" &&
		s.Spec.ClusterIP != v1.ClusterIPNone
}

// ServicePorts returns the ports of the Service in one family; none if it has no address there.
func ServicePorts(in Input, family Family) []ServicePort {
	if in.Service == nil || !Proxied(in.Service) {
		return nil
	}
	s := in.Service
	at := addresses(s, family)
	if !at.Cluster.IsValid() {
		return nil
	}
	var out []ServicePort
	for i := range s.Spec.Ports {
		sp := &s.Spec.Ports[i]
		protocol := strings.ToLower(string(sp.Protocol))
		if protocol == "" {
			protocol = "tcp"
		}
		number, ok := portNumber(sp.Port)
		if !ok || protocol != "tcp" && protocol != "udp" && protocol != "sctp" {
			continue // the API server does not admit such a Service
		}
		p := ServicePort{Service: types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, Name: sp.Name,
			Protocol: protocol, Number: number, Addresses: at, Affinity: affinity(s)}
		if n, ok := portNumber(sp.NodePort); ok {
			p.NodePort = n
		}
		p.InternalLocal = s.Spec.InternalTrafficPolicy != nil &&
			*s.Spec.InternalTrafficPolicy == v1.ServiceInternalTrafficPolicyLocal
		p.ExternalLocal = s.Spec.ExternalTrafficPolicy == v1.ServiceExternalTrafficPolicyLocal
		p.categorizeEndpoints(in, family)
		out = append(out, p)
	}
	return out
}

func portNumber(n int32) (uint16, bool) { return uint16(n), n > 0 && n < 65536 }

// affinity is how long a client keeps its endpoint, in seconds; 0: no session affinity.
func affinity(s *v1.Service) int32 {
	if s.Spec.SessionAffinity != v1.ServiceAffinityClientIP {
		return 0
	}
	if c := s.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil &&
		*c.ClientIP.TimeoutSeconds > 0 {
		return *c.ClientIP.TimeoutSeconds
	}
	return v1.DefaultClientIPServiceAffinitySeconds
}

// addresses are the Service's addresses of one family, and the sources its load balancers let in.
func addresses(s *v1.Service, family Family) Addresses {
	var a Addresses
	for _, text := range append([]string{s.Spec.ClusterIP}, s.Spec.ClusterIPs...) {
		if ip, ok := address(text, family); ok {
			a.Cluster = ip
			break
		}
	}
	for _, text := range s.Spec.ExternalIPs {
		if ip, ok := address(text, family); ok && !slices.Contains(a.External, ip) {
			a.External = append(a.External, ip)
		}
	}
	if s.Spec.Type != v1.ServiceTypeLoadBalancer {
		return a
	}
	for _, in := range s.Status.LoadBalancer.Ingress {
		if in.IPMode != nil && *in.IPMode == v1.LoadBalancerIPModeProxy {
			continue // ipMode Proxy: the load balancer wants these packets itself
		}
		if ip, ok := address(in.IP, family); ok && !slices.Contains(a.LoadBalancers, ip) {
			a.LoadBalancers = append(a.LoadBalancers, ip)
		}
	}
	a.Sources = sources(s.Spec.LoadBalancerSourceRanges, family)
	return a
}

// sources returns the ranges of a family; nil if there is no limit.
func sources(ranges []string, family Family) []netip.Prefix {
	if len(ranges) == 0 {
		return nil
	}
	out := []netip.Prefix{}
	for _, text := range ranges {
		r, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil || !family.Has(r.Addr()) {
			continue
		}
		if r.Bits() == 0 {
			return nil
		}
		out = append(out, r.Masked())
	}
	return mergeRanges(out)
}

// mergeRanges sorts ranges and drops those contained in others, which kernel sets refuse.
func mergeRanges(ranges []netip.Prefix) []netip.Prefix {
	slices.SortFunc(ranges, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	out := ranges[:0]
	for _, r := range ranges {
		if n := len(out); n > 0 && out[n-1].Overlaps(r) {
			continue
		}
		out = append(out, r)
	}
	return out
}

// address parses an address of the family. An IPv4-mapped IPv6 address counts as IPv4; zones are
// refused.
func address(text string, family Family) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, false
	}
	ip = ip.Unmap().WithZone("")
	return ip, family.Has(ip) && !ip.IsUnspecified()
}
