package rules

import (
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Node is the node the rules are for.
type Node struct {
	Name string
	Zone string // its topology.kubernetes.io/zone
}

// Input is one Service with its slices.
type Input struct {
	Service *v1.Service
	Slices  []*discoveryv1.EndpointSlice
	Node    Node
}

// ServicePort is one port of one Service in one family: where its traffic comes in and who gets it.
type ServicePort struct {
	Service   types.NamespacedName
	Name      string // the port's name, may be empty
	Protocol  string // tcp, udp, sctp
	Number    uint16
	NodePort  uint16
	Addresses Addresses
	// Affinity is for how many seconds a client stays with its endpoint; 0: not at all.
	Affinity int32
	// InternalLocal and ExternalLocal are the traffic policies.
	InternalLocal bool
	ExternalLocal bool
	// ClusterEndpoints and LocalTrafficDetector are the endpoints for either policy, sorted. Any
	// tells that there is an endpoint somewhere.
	ClusterEndpoints []Endpoint
	LocalEndpoints   []Endpoint
	AnyEndpoint      bool
	// LocalEndpointsReady tells that those in LocalTrafficDetector are ready. Else they are ending
	// ones that still serve, which health-check node ports do not count.
	LocalEndpointsReady bool
}

// Addresses are where a Service is reached.
type Addresses struct {
	Cluster       netip.Addr
	External      []netip.Addr
	LoadBalancers []netip.Addr
	// Sources limits who may use the load balancer's addresses; nil: everybody. An empty slice:
	// nobody of this family.
	Sources []netip.Prefix
}

// Endpoint is an address that takes connections.
type Endpoint struct {
	netip.AddrPort
	IsLocal bool   // it may be on this node
	Pod     string // name of the Pod behind it, in the Service's namespace, when the slice names one
	UID     string // the Pod's
}

// Proxied tells whether the proxy has to do with a Service: it has an address, and nobody else
// proxies it.
func Proxied(s *v1.Service) bool {
	_, other := s.Labels["service.kubernetes.io/service-proxy-name"]
	return !other && s.Spec.Type != v1.ServiceTypeExternalName && s.Spec.ClusterIP != "" &&
		s.Spec.ClusterIP != v1.ClusterIPNone
}

// ServicePorts is the Service as one family sees it; none when it has no address there.
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
			continue // the API server lets no such Service in
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
			continue // the load balancer wants to see these packets itself
		}
		if ip, ok := address(in.IP, family); ok && !slices.Contains(a.LoadBalancers, ip) {
			a.LoadBalancers = append(a.LoadBalancers, ip)
		}
	}
	a.Sources = sources(s.Spec.LoadBalancerSourceRanges, family)
	return a
}

// sources is nil when there is no limit.
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

// mergeRanges drops ranges inside others, which the kernel's sets refuse, and sorts the rest.
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

// address reads an address of the family; the four-byte form inside IPv6 counts as IPv4, and zones
// have no place in rules.
func address(text string, family Family) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, false
	}
	ip = ip.Unmap().WithZone("")
	return ip, family.Has(ip) && !ip.IsUnspecified()
}
