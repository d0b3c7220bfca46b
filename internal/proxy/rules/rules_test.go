package rules_test

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata")

// service returns web with a cluster IP, changed by f.
func service(f func(*v1.Service)) *v1.Service {
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: v1.ServiceSpec{
		Type: v1.ServiceTypeClusterIP, ClusterIP: "10.96.0.10", ClusterIPs: []string{"10.96.0.10"},
		Ports: []v1.ServicePort{{Name: "http", Protocol: v1.ProtocolTCP, Port: 80}},
	}}
	if f != nil {
		f(s)
	}
	return s
}

type end struct {
	ip    string
	node  string
	state string // "" ready; "unready", "ending" (serving), "ended" (not serving)
	zone  string
	near  string // node hint
}

func slice(port int32, ends ...end) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: &port}}}
	for _, e := range ends {
		x := discoveryv1.Endpoint{Addresses: []string{e.ip}, NodeName: &e.node,
			Conditions: discoveryv1.EndpointConditions{
				Ready: new(e.state == ""), Serving: new(e.state == "" || e.state == "ending"),
				Terminating: new(strings.HasPrefix(e.state, "end")),
			}}
		if e.zone != "" || e.near != "" {
			x.Hints = &discoveryv1.EndpointHints{}
			if e.zone != "" {
				x.Hints.ForZones = []discoveryv1.ForZone{{Name: e.zone}}
			}
			if e.near != "" {
				x.Hints.ForNodes = []discoveryv1.ForNode{{Name: e.near}}
			}
		}
		s.Endpoints = append(s.Endpoints, x)
	}
	return s
}

func ports(s *v1.Service, slices ...*discoveryv1.EndpointSlice) []rules.ServicePort {
	return rules.ServicePorts(rules.Input{Service: s, Slices: slices, Node: rules.Node{Name: "n1", Zone: "z1"}},
		rules.IPv4)
}

func list(ends []rules.Endpoint) string {
	var out []string
	for _, e := range ends {
		out = append(out, e.AddrPort.String())
	}
	return strings.Join(out, " ")
}

// row: NET-12
// row: TRM-15
func TestEndpointsThatGetTraffic(t *testing.T) {
	for _, c := range []struct {
		name           string
		ends           []end
		cluster, local string
	}{
		{"ready ones only", []end{{ip: "10.1.0.1", node: "n1"}, {ip: "10.1.0.2", node: "n2", state: "unready"}},
			"10.1.0.1:8080", "10.1.0.1:8080"},
		{"local are this node's", []end{{ip: "10.1.0.1", node: "n1"}, {ip: "10.1.0.2", node: "n2"}},
			"10.1.0.1:8080 10.1.0.2:8080", "10.1.0.1:8080"},
		{"ending ones stay out while others are ready", []end{{ip: "10.1.0.1", node: "n1", state: "ending"},
			{ip: "10.1.0.2", node: "n2"}}, "10.1.0.2:8080", "10.1.0.1:8080"},
		{"ending ones that serve are better than none", []end{{ip: "10.1.0.1", node: "n1", state: "ending"},
			{ip: "10.1.0.2", node: "n1", state: "ended"}}, "10.1.0.1:8080", "10.1.0.1:8080"},
		{"all that are ready", []end{{ip: "10.1.0.1", node: "n1"}, {ip: "10.1.0.2", node: "n2"},
			{ip: "10.1.0.3", node: "n1", state: "unready"}, {ip: "10.1.0.4", node: "n1"}},
			"10.1.0.1:8080 10.1.0.2:8080 10.1.0.4:8080", "10.1.0.1:8080 10.1.0.4:8080"},
		{"nobody", []end{{ip: "10.1.0.1", node: "n1", state: "unready"}}, "", ""},
		{"an address twice counts once, its better word counts", []end{{ip: "10.1.0.1", node: "n1", state: "ended"},
			{ip: "10.1.0.1", node: "n1"}}, "10.1.0.1:8080", "10.1.0.1:8080"},
		{"own zone", []end{{ip: "10.1.0.1", node: "n1", zone: "z1"}, {ip: "10.1.0.2", node: "n2", zone: "z2"}},
			"10.1.0.1:8080", "10.1.0.1:8080"},
		{"zones only when every endpoint has one", []end{{ip: "10.1.0.1", node: "n1", zone: "z1"},
			{ip: "10.1.0.2", node: "n2"}}, "10.1.0.1:8080 10.1.0.2:8080", "10.1.0.1:8080"},
		{"zones only when one is ours", []end{{ip: "10.1.0.1", node: "n2", zone: "z3"},
			{ip: "10.1.0.2", node: "n2", zone: "z2"}}, "10.1.0.1:8080 10.1.0.2:8080", ""},
		{"own node before own zone", []end{{ip: "10.1.0.1", node: "n1", zone: "z1", near: "n1"},
			{ip: "10.1.0.2", node: "n2", zone: "z1", near: "n2"}}, "10.1.0.1:8080", "10.1.0.1:8080"},
		{"no address of the family", []end{{ip: "fd00::1", node: "n1"}, {ip: "nonsense", node: "n1"}}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var each []*discoveryv1.EndpointSlice // and as slices of one endpoint
			for _, e := range c.ends {
				each = append(each, slice(8080, e))
			}
			if got := ports(service(nil), each...); len(got) != 1 || list(got[0].ClusterEndpoints) != c.cluster ||
				list(got[0].LocalEndpoints) != c.local {
				t.Errorf("in %d slices: got cluster %q local %q, want %q and %q", len(each),
					list(got[0].ClusterEndpoints), list(got[0].LocalEndpoints), c.cluster, c.local)
			}
			got := ports(service(nil), slice(8080, c.ends...))
			if len(got) != 1 || list(got[0].ClusterEndpoints) != c.cluster || list(got[0].LocalEndpoints) != c.local {
				t.Errorf("got cluster %q local %q, want %q and %q", list(got[0].ClusterEndpoints),
					list(got[0].LocalEndpoints), c.cluster, c.local)
			}
		})
	}
}

func TestOthersServicesAreLeftAlone(t *testing.T) {
	for name, f := range map[string]func(*v1.Service){
		"headless":     func(s *v1.Service) { s.Spec.ClusterIP = v1.ClusterIPNone },
		"ExternalName": func(s *v1.Service) { s.Spec.Type = v1.ServiceTypeExternalName },
		"another proxy's": func(s *v1.Service) {
			s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "x"}
		},
		"the other family's": func(s *v1.Service) {
			s.Spec.ClusterIP, s.Spec.ClusterIPs = "fd00::1", []string{"fd00::1"}
		},
	} {
		if got := ports(service(f), slice(8080, end{ip: "10.1.0.1", node: "n1"})); len(got) != 0 {
			t.Errorf("%s: got %v, want nothing", name, got)
		}
	}
}

// text prints a state as a transcript.
func text(s rules.State) string {
	var b strings.Builder
	for _, u := range rules.Delta(rules.NewState(), s) {
		for _, op := range u {
			line := fmt.Sprintf("%s %s", op.Verb, op.Name)
			if op.Key != "" {
				line += " { " + op.Key + " }"
			}
			if op.Text != "" {
				line += ": " + op.Text
			}
			if op.Timeout > 0 {
				line += fmt.Sprintf(" for %d s", op.Timeout)
			}
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func TestRulesLifecycle(t *testing.T) {
	bridge := rules.Settings{Family: rules.IPv4, MasqueradeBit: 14,
		LocalDetector: rules.LocalTrafficDetector{Interface: "gantry0"}}
	ranges := rules.Settings{Family: rules.IPv4, MasqueradeBit: 14,
		LocalDetector: rules.LocalTrafficDetector{Ranges: []netip.Prefix{netip.MustParsePrefix("10.72.0.0/16")}}}
	nodePort := func(s *v1.Service) { s.Spec.Type, s.Spec.Ports[0].NodePort = v1.ServiceTypeNodePort, 30080 }
	two := slice(8080, end{ip: "10.1.0.1", node: "n1"}, end{ip: "10.1.0.2", node: "n2"})
	var many []end
	for i := range 10 {
		many = append(many, end{ip: fmt.Sprintf("10.1.0.%d", i+1), node: "n2"})
	}
	local := func(s *v1.Service) {
		nodePort(s)
		s.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
	}
	sticky := func(s *v1.Service) { s.Spec.SessionAffinity = v1.ServiceAffinityClientIP }
	balancer := func(s *v1.Service) {
		s.Spec.Type = v1.ServiceTypeLoadBalancer
		s.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "203.0.113.1"}}
	}
	unnamed := slice(8080, end{ip: "10.1.0.1", node: "n1"})
	unnamed.Ports[0].Name = nil
	var out strings.Builder
	for _, c := range []struct {
		name     string
		settings rules.Settings
		change   func(*v1.Service)
		slice    *discoveryv1.EndpointSlice
	}{
		{"two endpoints", bridge, nil, two},
		{"ten endpoints", ranges, nil, slice(8080, many...)},
		{"no endpoint", bridge, nodePort, slice(8080)},
		{"masquerade all", rules.Settings{Family: rules.IPv4, MasqueradeAll: true}, nil, two},
		{"node port", bridge, nodePort, two},
		{"node port, external policy Local", bridge, func(s *v1.Service) {
			nodePort(s)
			s.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
		}, two},
		{"node port, external policy Local, none here", ranges, func(s *v1.Service) {
			nodePort(s)
			s.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
		}, slice(8080, end{ip: "10.1.0.2", node: "n2"})},
		{"internal policy Local, none here", bridge, func(s *v1.Service) {
			s.Spec.InternalTrafficPolicy = new(v1.ServiceInternalTrafficPolicyLocal)
		}, slice(8080, end{ip: "10.1.0.2", node: "n2"})},
		{"affinity", bridge, func(s *v1.Service) { s.Spec.SessionAffinity = v1.ServiceAffinityClientIP }, two},
		{"load balancer with source ranges", bridge, func(s *v1.Service) {
			nodePort(s)
			s.Spec.Type = v1.ServiceTypeLoadBalancer
			s.Spec.ExternalIPs = []string{"192.0.2.9"}
			s.Spec.LoadBalancerSourceRanges = []string{"198.51.100.0/24", "198.51.100.128/25", "fd00::/8"}
			s.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "203.0.113.1"}, {Hostname: "lb.example"},
				{IP: "203.0.113.2", IPMode: new(v1.LoadBalancerIPModeProxy)}}
		}, two},
		{"eight endpoints", bridge, nil, slice(8080, many[:8]...)},
		{"eight endpoints, node port, masquerade all", rules.Settings{Family: rules.IPv4, MasqueradeAll: true,
			LocalDetector: bridge.LocalDetector}, nodePort, slice(8080, many[:8]...)},
		{"ten endpoints, affinity", bridge, sticky, slice(8080, many...)},
		{"a port without a name, affinity of a second", bridge, func(s *v1.Service) {
			sticky(s)
			s.Spec.Ports[0].Name, s.Spec.SessionAffinityConfig = "", &v1.SessionAffinityConfig{
				ClientIP: &v1.ClientIPConfig{TimeoutSeconds: new(int32(1))}}
		}, unnamed},
		{"internal policy Local, affinity", bridge, func(s *v1.Service) {
			sticky(s)
			s.Spec.InternalTrafficPolicy = new(v1.ServiceInternalTrafficPolicyLocal)
		}, two},
		{"external policy Local, Pods not told apart", rules.Settings{Family: rules.IPv4}, local, two},
		{"external policy Local, no endpoint", bridge, local, slice(8080)},
		{"external policy Local, only one that ends", bridge, local,
			slice(8080, end{ip: "10.1.0.1", node: "n1", state: "ending"}, end{ip: "10.1.0.2", node: "n2"})},
		{"load balancer without node port, no endpoint", bridge, balancer, slice(8080)},
		{"load balancer without node port", bridge, balancer, two},
		{"load balancer for nobody of the family", bridge, func(s *v1.Service) {
			balancer(s)
			s.Spec.LoadBalancerSourceRanges = []string{"fd00::/8"}
		}, slice(8080)},
		{"source ranges without an address", bridge, func(s *v1.Service) {
			balancer(s)
			s.Spec.LoadBalancerSourceRanges = []string{"198.51.100.0/24"}
			s.Status = v1.ServiceStatus{}
		}, slice(8080)},
	} {
		fmt.Fprintf(&out, "# %s\n", c.name)
		for _, p := range ports(service(c.change), c.slice) {
			out.WriteString(text(p.State(c.settings)) + "\n")
		}
	}
	const golden = "testdata/rules.txt"
	if *rewrite {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("make stories rewrites %s:\n%s", golden, diff)
	}
}

func TestTheOlderServiceHasAnAddressThatTwoClaim(t *testing.T) {
	e := rules.Element{Set: "service-ips", Key: "192.0.2.9 . tcp . 80"}
	piece := func(verdict string) rules.State {
		s := rules.NewState()
		s.Elements[e] = verdict
		return s
	}
	b := rules.NewDesiredState()
	young, old := rules.Owner{Name: "a/young", Created: 2}, rules.Owner{Name: "b/old", Created: 1}
	c := rules.NewChange()
	c.Merge(b.Set(young, piece("goto young")))
	c.Merge(b.Set(old, piece("goto old")))
	if got := text2(rules.Delta(c.Was, c.Now)); got != "add element goto old" {
		t.Errorf("both at once: got %q, want %q", got, "add element goto old")
	}
	if got := text2(rules.Delta(b.Set(old, rules.NewState()))); got != "delete element goto old, add element goto "+
		"young" {
		t.Errorf("the older goes: %q", got)
	}
	if got := text2(rules.Delta(b.Set(young, rules.NewState()))); got != "delete element goto young" ||
		len(b.All().Elements) != 0 {
		t.Errorf("the last goes: %q, left %v", got, b.All())
	}
}

func text2(units []rules.Unit) string {
	var out []string
	for _, u := range units {
		for _, op := range u {
			out = append(out, string(op.Verb)+" "+op.Text)
		}
	}
	return strings.Join(out, ", ")
}

// A change of endpoints replaces map elements without touching what stays.
func TestAChangeTouchesOnlyWhatChanged(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*v1.Service)
		want   []string
	}{
		{"chains that all share", nil, []string{"delete element goto choose-2", "add element goto choose-1",
			"delete element 10.1.0.2 . 8080"}},
		{"a chain of its own", func(s *v1.Service) { s.Spec.SessionAffinity = v1.ServiceAffinityClientIP },
			[]string{"add chain", "add rule", "add rule", "delete element", "add element", "delete chain",
				"delete chain", "delete affinity"}},
	} {
		state := func(ends ...end) rules.State {
			return ports(service(c.change), slice(8080, ends...))[0].State(rules.Settings{Family: rules.IPv4})
		}
		two := state(end{ip: "10.1.0.1", node: "n1"}, end{ip: "10.1.0.2", node: "n2"})
		one := state(end{ip: "10.1.0.1", node: "n1"})
		var did []string
		for _, u := range rules.Delta(two, one) {
			for _, op := range u {
				line := string(op.Verb)
				if c.change == nil {
					line += " " + op.Text
				}
				did = append(did, line)
			}
		}
		if !slices.Equal(did, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, did, c.want)
		}
		if d := rules.Delta(two, two); len(d) != 0 {
			t.Errorf("%s: equal states differ by %v", c.name, d)
		}
	}
}

func TestStaleConversations(t *testing.T) {
	p := ports(service(func(s *v1.Service) {
		s.Spec.Ports[0].Protocol, s.Spec.Ports[0].NodePort = v1.ProtocolUDP, 30053
	}), func() *discoveryv1.EndpointSlice {
		s := slice(53, end{ip: "10.1.0.1", node: "n1"})
		s.Ports[0].Protocol = new(v1.ProtocolUDP)
		return s
	}())
	f := rules.NewUDPFlows(p)
	at := netip.MustParseAddrPort
	for _, c := range []struct {
		asked, answers string
		stale          bool
	}{
		{"10.96.0.10:80", "10.1.0.1:53", false},
		{"10.96.0.10:80", "10.1.0.9:53", true},
		{"10.96.0.10:80", "10.96.0.10:80", true}, // started when there was no rule
		{"192.0.2.1:30053", "10.1.0.9:53", true},
		{"192.0.2.1:30053", "10.1.0.1:53", false},
		{"192.0.2.1:30053", "192.0.2.1:30053", false},
		{"8.8.8.8:53", "8.8.8.8:53", false},
	} {
		if got := f.Stale(at(c.asked), at(c.answers)); got != c.stale {
			t.Errorf("%s answered by %s: stale: got %v, want %v", c.asked, c.answers, got, c.stale)
		}
	}
}

// A Service is deleted and another gets its address or node port, in one sync: flows to the other's
// endpoints continue.
func TestFlowsOfAReusedAddressContinue(t *testing.T) {
	removed := rules.ServicePort{Protocol: "udp", Number: 53, NodePort: 30053,
		Addresses: rules.Addresses{Cluster: netip.MustParseAddr("10.96.0.10")}}
	there := removed
	there.ClusterEndpoints = []rules.Endpoint{{AddrPort: netip.MustParseAddrPort("10.1.0.1:53")}}
	for _, ports := range [][]rules.ServicePort{{removed, there}, {there, removed}} {
		f := rules.NewUDPFlows(ports)
		for _, requested := range []string{"10.96.0.10:53", "192.0.2.1:30053"} {
			if f.Stale(netip.MustParseAddrPort(requested), netip.MustParseAddrPort("10.1.0.1:53")) ||
				!f.Stale(netip.MustParseAddrPort(requested), netip.MustParseAddrPort("10.1.0.9:53")) {
				t.Errorf("%s, with %d endpoints first", requested, len(ports[0].ClusterEndpoints))
			}
		}
	}
}

// The conntrack table is only walked for changes that can make a flow stale.
func TestOnlySomeChangesOutdateConversations(t *testing.T) {
	port := func(ends ...string) rules.ServicePort {
		p := rules.ServicePort{Protocol: "udp", Number: 53,
			Addresses: rules.Addresses{Cluster: netip.MustParseAddr("10.96.0.10")}}
		for _, e := range ends {
			p.ClusterEndpoints = append(p.ClusterEndpoints, rules.Endpoint{AddrPort: netip.MustParseAddrPort(e)})
		}
		return p
	}
	a, b := "10.1.0.1:53", "10.1.0.2:53"
	moved, tcp := port(a), port(a)
	moved.Addresses.Cluster, tcp.Protocol = netip.MustParseAddr("10.96.0.11"), "tcp"
	for _, c := range []struct {
		name     string
		was, now []rules.ServicePort
		want     int
	}{
		{"new", nil, []rules.ServicePort{port(a)}, 1},
		{"another endpoint", []rules.ServicePort{port(a)}, []rules.ServicePort{port(a, b)}, 0},
		{"the same", []rules.ServicePort{port(a, b)}, []rules.ServicePort{port(b, a)}, 0},
		{"one left", []rules.ServicePort{port(a, b)}, []rules.ServicePort{port(b)}, 1},
		{"the first", []rules.ServicePort{port()}, []rules.ServicePort{port(a)}, 1},
		{"the last left", []rules.ServicePort{port(a)}, []rules.ServicePort{port()}, 1},
		{"another address: the old and the new", []rules.ServicePort{port(a)}, []rules.ServicePort{moved}, 2},
		{"gone", []rules.ServicePort{port(a)}, nil, 1},
		{"TCP says itself when it ends", []rules.ServicePort{tcp}, nil, 0},
	} {
		if got := rules.StaleUDPPorts(c.was, c.now); len(got) != c.want {
			t.Errorf("%s: %d ports, want %d", c.name, len(got), c.want)
		}
	}
}
