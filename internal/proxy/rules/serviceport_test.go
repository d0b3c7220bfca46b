package rules_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// portText prints what is read of a Service.
func portText(all []rules.ServicePort) string {
	var out []string
	for _, p := range all {
		text := fmt.Sprintf("%s:%d %s", p.Addresses.Cluster, p.Number, p.Protocol)
		if p.NodePort != 0 {
			text += fmt.Sprintf(" node:%d", p.NodePort)
		}
		if p.Affinity != 0 {
			text += fmt.Sprintf(" affinity:%d", p.Affinity)
		}
		if a := p.Addresses; len(a.External)+len(a.LoadBalancers) > 0 {
			text += fmt.Sprintf(" external:%v balancer:%v", a.External, a.LoadBalancers)
		}
		if p.Addresses.Sources != nil {
			text += fmt.Sprintf(" from:%v", p.Addresses.Sources)
		}
		if p.InternalLocal || p.ExternalLocal {
			text += fmt.Sprintf(" local:%v/%v", p.InternalLocal, p.ExternalLocal)
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func TestServicePorts(t *testing.T) {
	balanced := func(ranges ...string) func(*v1.Service) {
		return func(s *v1.Service) {
			s.Spec.Type, s.Spec.LoadBalancerSourceRanges = v1.ServiceTypeLoadBalancer, ranges
			s.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "203.0.113.1"}, {IP: "203.0.113.1"},
				{IP: "203.0.113.3", IPMode: new(v1.LoadBalancerIPModeProxy)},
				{IP: "203.0.113.2", IPMode: new(v1.LoadBalancerIPModeVIP)}}
		}
	}
	sticky := func(c *v1.SessionAffinityConfig) func(*v1.Service) {
		return func(s *v1.Service) {
			s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = v1.ServiceAffinityClientIP, c
		}
	}
	of := func(ports ...v1.ServicePort) func(*v1.Service) {
		return func(s *v1.Service) { s.Spec.Ports = ports }
	}
	within := func(seconds *int32) *v1.SessionAffinityConfig {
		return &v1.SessionAffinityConfig{ClientIP: &v1.ClientIPConfig{TimeoutSeconds: seconds}}
	}
	external := func(ips ...string) func(*v1.Service) {
		return func(s *v1.Service) { s.Spec.ExternalIPs = ips }
	}
	const hours = "10.96.0.10:80 tcp affinity:10800"
	const first, balancers = "10.96.0.10:80 tcp", "10.96.0.10:80 tcp external:[] balancer:[203.0.113.1 203.0.113.2]"
	for name, c := range map[string]struct {
		change func(*v1.Service)
		want   string
	}{
		"a protocol is TCP by default": {of(v1.ServicePort{Port: 1}), "10.96.0.10:1 tcp"},
		"all protocols, highest number": {of(v1.ServicePort{Port: math.MaxUint16, Protocol: v1.ProtocolSCTP},
			v1.ServicePort{Port: 53, Protocol: v1.ProtocolUDP}), "10.96.0.10:65535 sctp; 10.96.0.10:53 udp"},
		"what no port is": {of(v1.ServicePort{Port: 0}, v1.ServicePort{Port: math.MaxUint16 + 1},
			v1.ServicePort{Port: 80, Protocol: "ICMP"}, v1.ServicePort{Port: 80, NodePort: 30080}), first +
			" node:30080"},
		"the family's address among several": {func(s *v1.Service) {
			s.Spec.ClusterIP, s.Spec.ClusterIPs = "fd00::1", []string{"fd00::1", "10.96.0.11", "10.96.0.12"}
		}, "10.96.0.11:80 tcp"},
		"no affinity":               {func(s *v1.Service) { s.Spec.SessionAffinity = v1.ServiceAffinityNone }, first},
		"affinity, three hours":     {sticky(nil), hours},
		"affinity, no client":       {sticky(&v1.SessionAffinityConfig{}), hours},
		"affinity, no time":         {sticky(within(nil)), hours},
		"affinity, its own time":    {sticky(within(new(int32(1)))), first + " affinity:1"},
		"affinity, nothing as time": {sticky(within(new(int32(0)))), hours},
		"a load balancer":           {balanced(), balancers},
		"ranges, one within another": {balanced("198.51.100.0/24", "198.51.100.128/25", " 192.0.2.7/24"),
			balancers + " from:[192.0.2.0/24 198.51.100.0/24]"},
		"a range of half of all":     {balanced("128.0.0.0/1"), balancers + " from:[128.0.0.0/1]"},
		"everybody":                  {balanced("198.51.100.0/24", "0.0.0.0/0"), balancers},
		"ranges of the other family": {balanced("fd00::/8"), balancers + " from:[]"},
		"ranges that are none":       {balanced("nonsense"), balancers + " from:[]"},
		"external addresses, one twice": {external("192.0.2.9", "192.0.2.9", "fd00::9", "::ffff:192.0.2.8"),
			first + " external:[192.0.2.9 192.0.2.8] balancer:[]"},
		"external addresses that are none": {external("0.0.0.0", "", "x"), first},
		"a balancer's address of a Service that is none": {func(s *v1.Service) {
			balanced("198.51.100.0/24")(s)
			s.Spec.Type = v1.ServiceTypeNodePort
		}, first},
		"local traffic": {func(s *v1.Service) {
			s.Spec.InternalTrafficPolicy = new(v1.ServiceInternalTrafficPolicyLocal)
		}, first + " local:true/false"},
		"cluster traffic": {func(s *v1.Service) {
			s.Spec.InternalTrafficPolicy = new(v1.ServiceInternalTrafficPolicyCluster)
			s.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
		}, first + " local:false/true"},
	} {
		if got := portText(ports(service(c.change))); got != c.want {
			t.Errorf("%s: got  %s\nwant %s", name, got, c.want)
		}
	}
}

// Which port of a slice is a Service's port: the one with its name and protocol.
func TestPortsOfSlices(t *testing.T) {
	end := func(ports ...discoveryv1.EndpointPort) *discoveryv1.EndpointSlice {
		s := slice(1, end{ip: "10.1.0.1", node: "n1"})
		s.Ports = ports
		return s
	}
	for name, c := range map[string]struct {
		slice *discoveryv1.EndpointSlice
		want  string
	}{
		"by name": {end(discoveryv1.EndpointPort{Name: new("x"), Port: new(int32(1))},
			discoveryv1.EndpointPort{Name: new("http"), Port: new(int32(2))}), "10.1.0.1:2"},
		"no name": {end(discoveryv1.EndpointPort{Port: new(int32(2))}), ""},
		"by protocol": {end(discoveryv1.EndpointPort{Name: new("http"), Port: new(int32(1)),
			Protocol: new(v1.ProtocolUDP)}, discoveryv1.EndpointPort{Name: new("http"), Port: new(int32(2)),
			Protocol: new(v1.ProtocolTCP)}), "10.1.0.1:2"},
		"no number": {end(discoveryv1.EndpointPort{Name: new("http")}), ""},
		"no port":   {end(discoveryv1.EndpointPort{Name: new("http"), Port: new(int32(0))}), ""},
	} {
		if got := list(ports(service(nil), c.slice)[0].ClusterEndpoints); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	unnamed := service(func(s *v1.Service) { s.Spec.Ports[0].Name = "" })
	if got := list(ports(unnamed, end(discoveryv1.EndpointPort{Port: new(int32(2))}))[0].ClusterEndpoints); got !=
		"10.1.0.1:2" {
		t.Errorf("neither has a name: got %q, want 10.1.0.1:2", got)
	}
	other := slice(1, endOf("10.1.0.1"))
	other.AddressType = discoveryv1.AddressTypeFQDN
	if got := list(ports(service(nil), other)[0].ClusterEndpoints); got != "" {
		t.Errorf("a slice of names: got %q, want nothing", got)
	}
}

func endOf(ip string) end { return end{ip: ip, node: "n1"} }

// Hints of nodes and zones hold for all endpoints or for none; only ready ones are asked.
func TestHints(t *testing.T) {
	const both = "10.1.0.1:8080 10.1.0.2:8080"
	for name, c := range map[string]struct {
		ends []end
		want string
	}{
		"a node's, but one has none": {[]end{{ip: "10.1.0.1", node: "n1", near: "n1"}, {ip: "10.1.0.2", node: "n2"}},
			both},
		"a node's, the one without is not ready": {[]end{{ip: "10.1.0.1", node: "n1", near: "n1"},
			{ip: "10.1.0.2", node: "n2", near: "n2"}, {ip: "10.1.0.3", node: "n2", state: "unready"}}, "10.1.0.1:8080"},
		"of other nodes": {[]end{{ip: "10.1.0.1", node: "n1", near: "n3"}, {ip: "10.1.0.2", node: "n2", near: "n2"}},
			both},
		"of other nodes, of this zone": {[]end{{ip: "10.1.0.1", node: "n1", near: "n3", zone: "z1"},
			{ip: "10.1.0.2", node: "n2", near: "n2", zone: "z2"}}, "10.1.0.1:8080"},
		"the only one that fits is not ready": {[]end{{ip: "10.1.0.1", node: "n1", near: "n2"},
			{ip: "10.1.0.2", node: "n2", near: "n2"}, {ip: "10.1.0.3", node: "n1", near: "n1", state: "unready"}},
			both},
	} {
		if got := list(ports(service(nil), slice(8080, c.ends...))[0].ClusterEndpoints); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	in := rules.Input{Service: service(nil), Slices: []*discoveryv1.EndpointSlice{slice(8080,
		end{ip: "10.1.0.1", node: "n1", zone: "z1"}, end{ip: "10.1.0.2", node: "n2", zone: "z2"})},
		Node: rules.Node{Name: "n9"}}
	if got := list(rules.ServicePorts(in, rules.IPv4)[0].ClusterEndpoints); got != both {
		t.Errorf("a node without a zone: got %q, want %q", got, both)
	}
}

// What is known of an endpoint beside its address; conditions that are not set count as true,
// except for terminating.
func TestEndpointsAreRead(t *testing.T) {
	s := slice(8080, endOf("10.1.0.1"), endOf("10.1.0.2"), endOf("10.1.0.3"), endOf("10.1.0.4"))
	s.Endpoints[0].TargetRef = &v1.ObjectReference{Kind: "Pod", Name: "p", UID: "u"}
	s.Endpoints[1].TargetRef = &v1.ObjectReference{Kind: "VirtualMachine", Name: "v", UID: "u"}
	s.Endpoints[1].Conditions = discoveryv1.EndpointConditions{}
	s.Endpoints[1].NodeName = nil
	s.Endpoints[2].Addresses = nil
	s.Endpoints[3].Conditions.Ready = new(false)
	p := ports(service(nil), s)[0]
	want := "10.1.0.1:8080/true/p/u 10.1.0.2:8080/false// "
	if got := details(p.ClusterEndpoints); got != want || !p.AnyEndpoint || !p.LocalEndpointsReady {
		t.Errorf("got %q, any %v, ready here %v, want %q, true, true", got, p.AnyEndpoint, p.LocalEndpointsReady, want)
	}
	s.Endpoints = s.Endpoints[3:]
	s.Endpoints[0].Conditions.Terminating = new(true)
	p = ports(service(nil), s)[0]
	if got := details(p.LocalEndpoints); got != "10.1.0.4:8080/true// " || p.LocalEndpointsReady || !p.AnyEndpoint {
		t.Errorf("one that terminates: got %s, ready here %v, any %v, want it, false, true", got, p.LocalEndpointsReady,
			p.AnyEndpoint)
	}
}

func details(all []rules.Endpoint) string {
	out := ""
	for _, e := range all {
		out += fmt.Sprintf("%s/%v/%s/%s ", e.AddrPort, e.IsLocal, e.Pod, e.UID)
	}
	return out
}
