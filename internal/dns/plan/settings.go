package plan

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// port is the port of a server that is given by address only.
const port = 53

// maxServers is the limit of CoreDNS's forward plugin.
const maxServers = 15

// Settings are the servers to ask. The zero value asks none.
type Settings struct {
	// Upstreams are asked about names outside of the cluster and of Stubs.
	Upstreams []netip.AddrPort
	// Stubs are domains with servers of their own, sorted by zone.
	Stubs []Stub
}

// Stub is a domain with its servers.
type Stub struct {
	Zone    string
	Servers []netip.AddrPort
}

// Equal reports whether s and o are the same.
func (s Settings) Equal(o Settings) bool {
	return slices.Equal(s.Upstreams, o.Upstreams) && slices.EqualFunc(s.Stubs, o.Stubs,
		func(a, b Stub) bool { return a.Zone == b.Zone && slices.Equal(a.Servers, b.Servers) })
}

// Keys of the ConfigMap, as Kubernetes documents them for kube-dns.
const (
	KeyStubs     = "stubDomains"
	KeyUpstreams = "upstreamNameservers"
)

// Overlay returns base overridden by the ConfigMap's data: stubDomains is a JSON map from domain to
// addresses, upstreamNameservers a JSON list. Missing keys leave base; an empty list of upstreams
// means none. Errors name the key.
// https://kubernetes.io/docs/tasks/administer-cluster/dns-custom-nameservers
func Overlay(base Settings, data map[string]string) (Settings, error) {
	out := base
	if text, ok := data[KeyUpstreams]; ok {
		var list []string
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return base, fmt.Errorf(`data[%s]: want a JSON list such as ["192.0.2.53"]: %w`, KeyUpstreams, err)
		}
		servers, err := Servers(list)
		if err != nil {
			return base, fmt.Errorf("data[%s]: %w", KeyUpstreams, err)
		}
		out.Upstreams = servers
	}
	if text, ok := data[KeyStubs]; ok {
		var domains map[string][]string
		if err := json.Unmarshal([]byte(text), &domains); err != nil {
			return base, fmt.Errorf(`data[%s]: want a JSON map such as {"corp.example": ["192.0.2.53"]}: %w`, KeyStubs,
				err)
		}
		stubs, err := Stubs(domains)
		if err != nil {
			return base, fmt.Errorf("data[%s]: %w", KeyStubs, err)
		}
		out.Stubs = stubs
	}
	return out, nil
}

// Servers parses addresses, each with or without port.
func Servers(list []string) ([]netip.AddrPort, error) {
	if len(list) > maxServers {
		return nil, fmt.Errorf("%d servers; %d at most", len(list), maxServers)
	}
	out := make([]netip.AddrPort, 0, len(list))
	for _, text := range list {
		text = strings.TrimSpace(text)
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, netip.AddrPortFrom(a, port))
			continue
		}
		p, err := netip.ParseAddrPort(text)
		if err != nil || p.Port() == 0 {
			return nil, fmt.Errorf("%q is not an address such as 192.0.2.53, 192.0.2.53:5353 or [2001:db8::53]:53",
				text)
		}
		out = append(out, p)
	}
	return out, nil
}

// Stubs parses domains with their servers.
func Stubs(domains map[string][]string) ([]Stub, error) {
	out := make([]Stub, 0, len(domains))
	for domain, list := range domains {
		name := strings.ToLower(strings.TrimSuffix(domain, "."))
		if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
			return nil, fmt.Errorf("domain %q: %s", domain, errs[0])
		}
		servers, err := Servers(list)
		if err != nil {
			return nil, fmt.Errorf("domain %q: %w", domain, err)
		}
		if len(servers) == 0 {
			return nil, fmt.Errorf("domain %q has no server", domain)
		}
		out = append(out, Stub{Zone: name + ".", Servers: servers})
	}
	slices.SortFunc(out, func(a, b Stub) int { return strings.Compare(a.Zone, b.Zone) })
	return slices.CompactFunc(out, func(a, b Stub) bool { return a.Zone == b.Zone }), nil
}

// Nameservers returns the nameservers of a resolver file without own, which would forward queries
// to themselves.
func Nameservers(resolvConf string, own []netip.Addr) []netip.AddrPort {
	var out []netip.AddrPort
	for line := range strings.Lines(resolvConf) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		a, err := netip.ParseAddr(fields[1])
		if err != nil || slices.Contains(own, a.Unmap()) {
			continue
		}
		if p := netip.AddrPortFrom(a, port); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// ClusterAddress returns the DNS address of a Service range: the tenth, as with kubeadm; false if
// the range is too small.
func ClusterAddress(services netip.Prefix) (netip.Addr, bool) {
	a := services.Masked().Addr()
	for range 10 {
		a = a.Next()
	}
	return a, a.IsValid() && services.Contains(a)
}
