package discovery

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func slice(labels map[string]string, t discoveryv1.AddressType, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{AddressType: t}
	s.Labels = labels
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	return s
}

// Who writes deprecated forms of addresses is told, unless it is a controller.
func TestWarnings(t *testing.T) {
	by := func(name string) map[string]string { return map[string]string{discoveryv1.LabelManagedBy: name} }
	const odd = "endpoints[1].addresses[0]: IPv6 address \"fd00:0::1\" should be in RFC 5952 canonical format"
	for _, c := range []struct {
		slice *discoveryv1.EndpointSlice
		want  string
	}{
		{slice(nil, "IPv6", "fd00::1", "fd00:0::1"), odd},
		{slice(by("mine"), "IPv6", "fd00::1", "fd00:0::1"), odd},
		{slice(by("endpointslice-controller.k8s.io"), "IPv6", "fd00::1", "fd00:0::1"), ""},
		{slice(by("endpointslicemirroring-controller.k8s.io"), "IPv6", "fd00::1", "fd00:0::1"), ""},
		{slice(nil, "IPv4", "10.0.0.1"), ""},
		{slice(nil, "FQDN"), "spec.addressType: FQDN endpoints are deprecated"},
	} {
		if got := strings.Join(warn(c.slice), "; "); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%v: got %q, want %q", c.slice.Endpoints, got, c.want)
		}
	}
}

// deprecatedTopology goes; a node that it named stays the endpoint's node.
func TestDeprecatedTopology(t *testing.T) {
	on := func(node string) *discoveryv1.EndpointSlice {
		s := slice(nil, "IPv4", "10.0.0.1")
		s.Endpoints[0].DeprecatedTopology = map[string]string{corev1.LabelHostname: node}
		return s
	}
	for name, c := range map[string]struct {
		was, is *discoveryv1.EndpointSlice
		change  func(*discoveryv1.Endpoint)
		want    string
	}{
		"created":      {nil, on("n"), nil, "<nil> map[]"},
		"unchanged":    {on("n"), on("n"), nil, "<nil> map[kubernetes.io/hostname:n]"},
		"another node": {on("n"), on("m"), nil, "<nil> map[]"},
		"another address": {on("n"), on("n"), func(e *discoveryv1.Endpoint) { e.Addresses[0] = "10.0.0.2" },
			"n map[]"},
		"a node of its own": {on("n"), on("n"), func(e *discoveryv1.Endpoint) { e.NodeName = new("own") },
			"own map[]"},
		"a name that is bad": {on("N_"), on("N_"), func(e *discoveryv1.Endpoint) { e.Addresses[0] = "10.0.0.2" },
			"<nil> map[]"},
	} {
		if c.change != nil {
			c.change(&c.is.Endpoints[0])
		}
		dropTopology(c.is, c.was)
		node := "<nil>"
		if n := c.is.Endpoints[0].NodeName; n != nil {
			node = *n
		}
		if got := fmt.Sprintf("%s %v", node, c.is.Endpoints[0].DeprecatedTopology); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// Addresses by their type, and how many of a thing there may be.
func TestSlices(t *testing.T) {
	ports := func(n int, change func(*discoveryv1.EndpointPort)) []discoveryv1.EndpointPort {
		var out []discoveryv1.EndpointPort
		for i := range n {
			p := discoveryv1.EndpointPort{Name: new(fmt.Sprint("p", i)), Protocol: new(corev1.ProtocolTCP)}
			if change != nil {
				change(&p)
			}
			out = append(out, p)
		}
		return out
	}
	for _, c := range []struct {
		ports []discoveryv1.EndpointPort
		want  string
	}{
		{ports(maxPorts, nil), ""}, {ports(maxPorts+1, nil), fmt.Sprintf("ports: Too many: %d: ", maxPorts+1)},
		{ports(1, func(p *discoveryv1.EndpointPort) { p.Protocol = nil }), "ports[0].protocol: Required value"},
		{ports(1, func(p *discoveryv1.EndpointPort) { p.Protocol = new(corev1.Protocol("ICMP")) }),
			`ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"`},
		{ports(2, func(p *discoveryv1.EndpointPort) { p.Name = new("a") }), `ports[1].name: Duplicate value: "a"`},
		{ports(1, func(p *discoveryv1.EndpointPort) { p.Name = new("A") }), `ports[0].name: Invalid value: "A": `},
		{ports(1, func(p *discoveryv1.EndpointPort) { p.AppProtocol = new("a b") }),
			`ports[0].appProtocol: Invalid value: "a b": `},
	} {
		var f typed.Errors
		checkPorts(&f, c.ports)
		if got := texts(&f); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%d ports: got %q, want %q", len(c.ports), got, c.want)
		}
	}
	labels := map[string]string{}
	for i := range maxTopologyLabels + 1 {
		labels[fmt.Sprint("l", i)] = ""
	}
	var names []discoveryv1.ForZone
	for i := range maxHints + 1 {
		names = append(names, discoveryv1.ForZone{Name: fmt.Sprint("z", i)})
	}
	many := fmt.Sprintf("e.deprecatedTopology: Too many: %d: ", maxTopologyLabels+1)
	for _, c := range []struct {
		kind discoveryv1.AddressType
		e    discoveryv1.Endpoint
		want string
	}{
		{"IPv4", discoveryv1.Endpoint{Addresses: []string{"10.0.0.1"}}, ""},
		{"IPv4", discoveryv1.Endpoint{Addresses: []string{"fd00::1"}},
			`e.addresses: Invalid value: "fd00::1": must be an ` +
				"IPv4 address"},
		{"IPv6", discoveryv1.Endpoint{Addresses: []string{"fd00::1"}}, ""},
		{"IPv6", discoveryv1.Endpoint{Addresses: []string{"10.0.0.1"}},
			`e.addresses: Invalid value: "10.0.0.1": must be ` +
				"an IPv6 address"},
		{"IPv4", discoveryv1.Endpoint{Addresses: []string{"127.0.0.1"}},
			`e.addresses[0]: Invalid value: "127.0.0.1": may ` +
				"not be in the loopback range"},
		{"IPv4", discoveryv1.Endpoint{Addresses: []string{"x"}},
			`e.addresses[0]: Invalid value: "x": must be a valid IP`},
		{"FQDN", discoveryv1.Endpoint{Addresses: []string{"a.example.com"}}, ""},
		{"FQDN", discoveryv1.Endpoint{Addresses: []string{"a"}},
			`e.addresses[0]: Invalid value: "a": should be a domain`},
		{"Other", discoveryv1.Endpoint{Addresses: []string{"?"}}, ""},
		{"IPv4", discoveryv1.Endpoint{NodeName: new("N")}, `e.nodeName: Invalid value: "N": `},
		{"IPv4", discoveryv1.Endpoint{Hostname: new("a.b")}, `e.hostname: Invalid value: "a.b": `},
		{"IPv4", discoveryv1.Endpoint{DeprecatedTopology: labels}, many},
		{"IPv4", discoveryv1.Endpoint{DeprecatedTopology: map[string]string{"a b": ""}},
			`e.deprecatedTopology: Invalid ` +
				`value: "a b": `},
		{"IPv4", discoveryv1.Endpoint{Hints: &discoveryv1.EndpointHints{ForZones: names}},
			fmt.Sprintf("e.hints.forZones: Too many: %d: ", maxHints+1)},
		{"IPv4", discoveryv1.Endpoint{Hints: &discoveryv1.EndpointHints{ForZones: names[:maxHints]}}, ""},
		{"IPv4", discoveryv1.Endpoint{Hints: &discoveryv1.EndpointHints{ForNodes: []discoveryv1.ForNode{{Name: "a"},
			{Name: "a"}}}}, `e.hints.forNodes[1].name: Duplicate value: "a"`},
		{"IPv4", discoveryv1.Endpoint{Hints: &discoveryv1.EndpointHints{ForNodes: []discoveryv1.ForNode{{Name: "A"}}}},
			`e.hints.forNodes[0].name: Invalid value: "A": `},
	} {
		var f typed.Errors
		checkEndpoint(&f, c.kind, &c.e, endpointAt{path: field.NewPath("e")})
		if got := texts(&f); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s %v: got %q, want %q", c.kind, c.e, got, c.want)
		}
	}
}

func texts(f *typed.Errors) string {
	var out []string
	for _, e := range f.List() {
		out = append(out, e.Error())
	}
	return strings.Join(out, "; ")
}
