package rules

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func addresses(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range texts {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

// cluster is the Pods that the tables are about: web is what policies select, new is known by its
// address alone, lost is in a namespace that is not known.
func cluster(policies ...*networkingv1.NetworkPolicy) In {
	app := func(s string) map[string]string { return map[string]string{"app": s} }
	return In{Policies: policies, Namespaces: map[string]map[string]string{"x": {"team": "a"}, "y": {"team": "b"}},
		Pods: []Pod{
			{Namespace: "x", Name: "web", Labels: app("web"), Local: true, IPs: addresses("10.0.0.1", "fd00::1"),
				Ports: []v1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: v1.ProtocolTCP},
					{Name: "http", ContainerPort: 8081, Protocol: v1.ProtocolUDP}, {Name: "first", ContainerPort: 1},
					{Name: "last", ContainerPort: 65535}, {Name: "none"}, {Name: "high", ContainerPort: 65536},
					{Name: "odd", ContainerPort: 80, Protocol: "ODD"}}},
			{Namespace: "x", Name: "db", Labels: app("db"), IPs: addresses("10.0.0.2", "fd00::2"),
				Ports: []v1.ContainerPort{{Name: "http", ContainerPort: 9090}, {Name: "other", ContainerPort: 1}}},
			{Namespace: "y", Name: "db", Labels: app("db"), IPs: addresses("10.0.0.3"),
				Ports: []v1.ContainerPort{{Name: "http", ContainerPort: 7070}}},
			{Namespace: "x", Name: "new", Labels: app("db"), Local: true, Unknown: true, IPs: addresses("10.0.0.4")},
			{Namespace: "z", Name: "lost", Labels: app("db"), Local: true, IPs: addresses("10.0.0.5")},
		}}
}

func policy(name string, change func(*networkingv1.NetworkPolicySpec)) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name}}
	p.Spec.PodSelector.MatchLabels = map[string]string{"app": "web"}
	change(&p.Spec)
	return p
}

// rulesOf is the rules for an address by one of the frame's maps, the elements of sets in place of
// their names.
func rulesOf(s State, m, ip string) string {
	verdict, ok := s.Pods[m][ip]
	if !ok {
		return "not isolated"
	}
	var out []string
	for _, line := range s.Chains[strings.TrimPrefix(verdict, "goto ")] {
		for name, set := range s.Sets {
			var elements []string
			for e := range set.Elements {
				elements = append(elements, e)
			}
			slices.Sort(elements)
			line = strings.ReplaceAll(line, "@"+name, "{"+strings.Join(elements, ", ")+"}")
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

type (
	peer  = networkingv1.NetworkPolicyPeer
	ports = []networkingv1.NetworkPolicyPort
)

func port(protocol v1.Protocol, number int32) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: ptr.To(intstr.FromInt32(number))}
}

func upTo(p networkingv1.NetworkPolicyPort, last int32) networkingv1.NetworkPolicyPort {
	p.EndPort = &last
	return p
}

func named(protocol v1.Protocol, name string) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: ptr.To(intstr.FromString(name))}
}

func selector(pairs ...string) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	for i := 0; i < len(pairs); i += 2 {
		out.MatchLabels = map[string]string{pairs[i]: pairs[i+1]}
	}
	return out
}

func TestPeersOfARule(t *testing.T) {
	odd := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Odd"}}}
	block := func(cidr string, except ...string) peer {
		return peer{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}}
	}
	for _, c := range []struct {
		name string
		from []peer
		want string // without the last line, which drops
	}{
		{"everybody", nil, "return"},
		{"Pods of the namespace", []peer{{PodSelector: selector("app", "db")}},
			"ip saddr {10.0.0.2} return\nip6 saddr {fd00::2} return"},
		{"all Pods of the namespace", []peer{{PodSelector: selector()}},
			"ip saddr {10.0.0.1, 10.0.0.2} return\nip6 saddr {fd00::1, fd00::2} return"},
		{"Pods of another namespace", []peer{{NamespaceSelector: selector("team", "b")}},
			"ip saddr {10.0.0.3} return\nip6 saddr {} return"},
		{"some Pods of all namespaces that are known", []peer{{NamespaceSelector: selector(),
			PodSelector: selector("app", "db")}}, "ip saddr {10.0.0.2, 10.0.0.3} return\nip6 saddr {fd00::2} return"},
		{"either of two", []peer{{NamespaceSelector: selector("team", "b")}, {PodSelector: selector("app", "web")}},
			"ip saddr {10.0.0.1, 10.0.0.3} return\nip6 saddr {fd00::1} return"},
		{"an empty peer", []peer{{}}, "ip saddr {} return\nip6 saddr {} return"},
		{"a selector that is none", []peer{{PodSelector: odd}}, "ip saddr {} return\nip6 saddr {} return"},
		{"a block", []peer{block("192.168.7.9/16")}, "ip saddr 192.168.0.0/16 return"},
		{"a block and Pods", []peer{{PodSelector: selector("app", "db")}, block("192.168.0.0/16")},
			"ip saddr 192.168.0.0/16 return\nip saddr {10.0.0.2} return\nip6 saddr {fd00::2} return"},
		{"a block of IPv6", []peer{block("fd01::/64")}, "ip6 saddr fd01::/64 return"},
		{"all of one family", []peer{block("0.0.0.0/0"), block("::/0")},
			"meta nfproto ipv4 return\nmeta nfproto ipv6 return"},
		{"exceptions", []peer{block("10.0.0.0/8", "10.1.0.0/16", "10.2.3.4/32", "11.0.0.0/16")},
			"ip saddr 10.0.0.0/8 ip saddr != 10.1.0.0/16 ip saddr != 10.2.3.4/32 return"},
		{"nothing but exceptions", []peer{block("10.0.0.0/8", "10.0.0.0/8")}, ""},
		{"an exception around it", []peer{block("10.1.0.0/16", "10.0.0.0/8")}, ""},
		{"a larger one elsewhere", []peer{block("10.1.0.0/16", "11.0.0.0/8")}, "ip saddr 10.1.0.0/16 return"},
		{"an exception that is no block allows nothing", []peer{block("10.0.0.0/8", "odd")}, ""},
		{"nor one of mapped addresses", []peer{block("10.0.0.0/8", "::ffff:10.0.0.0/104")}, ""},
		{"no block", []peer{block("odd"), block("::ffff:10.0.0.0/104")}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := strings.TrimPrefix(c.want+"\ndrop", "\n")
			in := cluster(policy("p", func(s *networkingv1.NetworkPolicySpec) {
				s.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: c.from}}
			}))
			got := Build(in)
			for m, ip := range map[string]string{Ingress4: "10.0.0.1", Ingress6: "fd00::1"} {
				if text := rulesOf(got, m, ip); text != want {
					t.Errorf("from %s: got\n%s\nwant\n%s", ip, text, want)
				}
			}
			in.Policies[0].Spec = networkingv1.NetworkPolicySpec{PodSelector: in.Policies[0].Spec.PodSelector,
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
				Egress:      []networkingv1.NetworkPolicyEgressRule{{To: c.from}}}
			got = Build(in)
			for m, ip := range map[string]string{Egress4: "10.0.0.1", Egress6: "fd00::1"} {
				if text := rulesOf(got, m, ip); text != strings.ReplaceAll(want, "saddr", "daddr") {
					t.Errorf("to %s: got\n%s\nwant\n%s with daddr", ip, text, want)
				}
			}
		})
	}
}

func TestPortsOfARule(t *testing.T) {
	db := []peer{{PodSelector: selector("app", "db")}}
	outside := []peer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"10.0.0.2/32"}}}}
	for _, c := range []struct {
		name    string
		ports   ports
		peers   []peer
		in, out string // without the last line
	}{
		{"a number", ports{port(v1.ProtocolUDP, 53)}, nil, "udp dport 53 return", "udp dport 53 return"},
		{"two of a peer", ports{port(v1.ProtocolTCP, 1), port(v1.ProtocolSCTP, 65535)}, outside,
			"ip saddr 10.0.0.0/8 ip saddr != 10.0.0.2/32 sctp dport 65535 return\n" +
				"ip saddr 10.0.0.0/8 ip saddr != 10.0.0.2/32 tcp dport 1 return",
			"ip daddr 10.0.0.0/8 ip daddr != 10.0.0.2/32 sctp dport 65535 return\n" +
				"ip daddr 10.0.0.0/8 ip daddr != 10.0.0.2/32 tcp dport 1 return"},
		{"no protocol is TCP", ports{{Port: ptr.To(intstr.FromInt32(80))}, port("", 81)}, nil,
			"tcp dport 80 return\ntcp dport 81 return", "tcp dport 80 return\ntcp dport 81 return"},
		{"a protocol alone", ports{{Protocol: ptr.To(v1.ProtocolUDP)}}, nil, "meta l4proto udp return",
			"meta l4proto udp return"},
		{"a range", ports{upTo(port(v1.ProtocolTCP, 80), 90)}, nil, "tcp dport 80-90 return",
			"tcp dport 80-90 return"},
		{"a range of one", ports{upTo(port(v1.ProtocolTCP, 80), 80)}, nil, "tcp dport 80 return",
			"tcp dport 80 return"},
		{"nothing", ports{upTo(port(v1.ProtocolTCP, 80), 79), port(v1.ProtocolTCP, 0), port("ODD", 80),
			upTo(port(v1.ProtocolTCP, 80), 65536)}, nil, "", ""},
		{"a name is the selected Pod's, or the peers'", ports{named(v1.ProtocolTCP, "http")}, db,
			"ip saddr {10.0.0.2} tcp dport 8080 return\nip6 saddr {fd00::2} tcp dport 8080 return",
			"ip daddr . meta l4proto . th dport {10.0.0.2 . tcp . 9090} return\n" +
				"ip6 daddr . meta l4proto . th dport {fd00::2 . tcp . 9090} return"},
		{"of that protocol", ports{named(v1.ProtocolUDP, "http")}, nil, "udp dport 8081 return",
			"ip daddr . meta l4proto . th dport {10.0.0.1 . udp . 8081} return\n" +
				"ip6 daddr . meta l4proto . th dport {fd00::1 . udp . 8081} return"},
		{"of everybody", ports{named(v1.ProtocolTCP, "http")}, nil, "tcp dport 8080 return",
			"ip daddr . meta l4proto . th dport {10.0.0.1 . tcp . 8080, 10.0.0.2 . tcp . 9090, 10.0.0.3 . tcp . " +
				"7070} return\n" +
				"ip6 daddr . meta l4proto . th dport {fd00::1 . tcp . 8080, fd00::2 . tcp . 9090} return"},
		{"of Pods in a block", ports{named(v1.ProtocolTCP, "http")}, outside,
			"ip saddr 10.0.0.0/8 ip saddr != 10.0.0.2/32 tcp dport 8080 return",
			"ip daddr . meta l4proto . th dport {10.0.0.1 . tcp . 8080, 10.0.0.3 . tcp . 7070} return\n" +
				"ip6 daddr . meta l4proto . th dport {} return"},
		{"the first and the last number", ports{named(v1.ProtocolTCP, "first"), named(v1.ProtocolTCP, "last")}, nil,
			"tcp dport 1 return\ntcp dport 65535 return",
			"ip daddr . meta l4proto . th dport {10.0.0.1 . tcp . 1} return\n" +
				"ip daddr . meta l4proto . th dport {10.0.0.1 . tcp . 65535} return\n" +
				"ip6 daddr . meta l4proto . th dport {fd00::1 . tcp . 1} return\n" +
				"ip6 daddr . meta l4proto . th dport {fd00::1 . tcp . 65535} return"},
		{"names without a port", ports{named(v1.ProtocolTCP, "none"), named(v1.ProtocolTCP, "high"),
			named("ODD", "http")}, nil, "", "ip daddr . meta l4proto . th dport {} return\n" +
			"ip daddr . meta l4proto . th dport {} return\nip6 daddr . meta l4proto . th dport {} return\n" +
			"ip6 daddr . meta l4proto . th dport {} return"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Build(cluster(policy("p", func(s *networkingv1.NetworkPolicySpec) {
				s.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: c.peers, Ports: c.ports}}
				s.Egress = []networkingv1.NetworkPolicyEgressRule{{To: c.peers, Ports: c.ports}}
			})))
			for m, want := range map[string]string{Ingress4: c.in, Egress4: c.out} {
				got := strings.Split(rulesOf(s, m, "10.0.0.1"), "\n")
				slices.Sort(got[:len(got)-1]) // sets' names decide the order
				if text := strings.Join(got, "\n"); text != strings.TrimPrefix(want+"\ndrop", "\n") {
					t.Errorf("%s: got\n%s\nwant\n%s\ndrop", m, text, want)
				}
			}
		})
	}
}

// A Pod is isolated in the directions of the policies that select it, and gets what all of them
// allow; policies' order plays no part.
func TestPodIsolation(t *testing.T) {
	types := func(t ...networkingv1.PolicyType) func(*networkingv1.NetworkPolicySpec) {
		return func(s *networkingv1.NetworkPolicySpec) { s.PolicyTypes = t }
	}
	allows := func(number int32) func(*networkingv1.NetworkPolicySpec) {
		return func(s *networkingv1.NetworkPolicySpec) {
			s.Ingress = []networkingv1.NetworkPolicyIngressRule{{Ports: ports{port(v1.ProtocolTCP, number)}}}
		}
	}
	lets := func(s *networkingv1.NetworkPolicySpec) { s.Egress = make([]networkingv1.NetworkPolicyEgressRule, 1) }
	elsewhere := policy("p", allows(80))
	elsewhere.Namespace = "y"
	for _, c := range []struct {
		name     string
		policies []*networkingv1.NetworkPolicy
		in, out  string
	}{
		{"no policy", nil, "not isolated", "not isolated"},
		{"one of another namespace", []*networkingv1.NetworkPolicy{elsewhere, nil}, "not isolated", "not isolated"},
		{"of others", []*networkingv1.NetworkPolicy{policy("p", func(s *networkingv1.NetworkPolicySpec) {
			s.PodSelector = *selector("app", "db")
		})}, "not isolated", "not isolated"},
		{"without types and rules", []*networkingv1.NetworkPolicy{policy("p", types())}, "drop", "not isolated"},
		{"without types, with rules for what goes out", []*networkingv1.NetworkPolicy{policy("p", lets)}, "drop",
			"return\ndrop"},
		{"what goes out alone", []*networkingv1.NetworkPolicy{policy("p", types("Egress"))}, "not isolated", "drop"},
		{"both", []*networkingv1.NetworkPolicy{policy("p", types("Ingress", "Egress"))}, "drop", "drop"},
		{"two policies", []*networkingv1.NetworkPolicy{policy("b", allows(80)), policy("a", allows(81)),
			policy("c", allows(80))}, "tcp dport 80 return\ntcp dport 81 return\ndrop", "not isolated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Build(cluster(c.policies...))
			if text := rulesOf(got, Ingress4, "10.0.0.1"); text != c.in {
				t.Errorf("in: got\n%s\nwant\n%s", text, c.in)
			}
			if text := rulesOf(got, Egress4, "10.0.0.1"); text != c.out {
				t.Errorf("out: got\n%s\nwant\n%s", text, c.out)
			}
			slices.Reverse(c.policies)
			if ops := Diff(got, Build(cluster(c.policies...))); len(ops) != 0 {
				t.Errorf("got %v with the policies in another order, want the same", ops)
			}
			unknown := rulesOf(got, Egress4, "10.0.0.4")
			if want := slices.ContainsFunc(c.policies, func(p *networkingv1.NetworkPolicy) bool {
				return p != nil && p.Namespace == "x"
			}); (unknown == "drop") != want {
				t.Errorf("a Pod of which only the address is known: got %s, want it isolated: %t", unknown, want)
			}
			if got := rulesOf(got, Ingress4, "10.0.0.2"); got != "not isolated" {
				t.Errorf("a Pod of another node: got\n%s\nwant it not isolated", got)
			}
		})
	}
}

func TestAPodReachesItself(t *testing.T) {
	s := Build(cluster(policy("p", func(s *networkingv1.NetworkPolicySpec) {
		s.PolicyTypes = []networkingv1.PolicyType{"Egress"}
	})))
	want := map[string][]string{Local4: {"10.0.0.1 . 10.0.0.1", "10.0.0.4 . 10.0.0.4"}, Local6: {"fd00::1 . fd00::1"}}
	for set, elements := range want {
		if len(s.Sets[set].Elements) != len(elements) {
			t.Errorf("%s: got %v, want %q", set, s.Sets[set].Elements, elements)
		}
		for _, e := range elements {
			if !s.Sets[set].Elements[e] {
				t.Errorf("%s: got %v, want %s in it", set, s.Sets[set].Elements, e)
			}
		}
	}
}

func TestDiffIsInAnOrderThatWorks(t *testing.T) {
	set := func(elements ...string) Set {
		out := Set{Type: "ipv4_addr", Elements: map[string]bool{}}
		for _, e := range elements {
			out.Elements[e] = true
		}
		return out
	}
	was := State{Sets: map[string]Set{"gone": set("9"), "stays": set("1", "2")},
		Chains: map[string][]string{"old": {"drop"}, "same": {"drop"}},
		Pods: map[string]map[string]string{Ingress4: {"10.0.0.1": "goto old", "10.0.0.2": "goto same"},
			Egress6: {"fd00::1": "goto old"}}}
	now := State{Sets: map[string]Set{"made": set("5"), "stays": set("2", "3")},
		Chains: map[string][]string{"new": {"tcp dport 80 return", "drop"}, "same": {"drop"}},
		Pods: map[string]map[string]string{Ingress4: {"10.0.0.1": "goto new", "10.0.0.2": "goto same"},
			Egress4: {"10.0.0.3": "goto new"}}}
	want := []Op{
		{AddSet, "made", "", "ipv4_addr"}, {AddElement, "made", "5", ""},
		{AddElement, "stays", "3", ""}, {DeleteElement, "stays", "1", ""},
		{AddChain, "new", "", ""}, {AddRule, "new", "", "tcp dport 80 return"}, {AddRule, "new", "", "drop"},
		{DeletePod, Ingress4, "10.0.0.1", "goto old"}, {DeletePod, Egress6, "fd00::1", "goto old"},
		{AddPod, Ingress4, "10.0.0.1", "goto new"}, {AddPod, Egress4, "10.0.0.3", "goto new"},
		{DeleteChain, "old", "", ""}, {DeleteSet, "gone", "", ""},
	}
	if got := Diff(was, now); !slices.Equal(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
	if got := Diff(now, now); len(got) != 0 {
		t.Errorf("got %v between equal states, want none", got)
	}
}

func TestTableFrame(t *testing.T) {
	want := `egress: ip saddr vmap @egress4; ip6 saddr vmap @egress6
ingress: ip daddr vmap @ingress4; ip6 daddr vmap @ingress6
forward: ct state established,related accept; ip saddr . ip daddr @self4 accept; ` +
		`ip6 saddr . ip6 daddr @self6 accept; ` +
		`icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit, nd-router-advert } accept; ` +
		`jump egress; jump ingress
`
	got := ""
	for _, c := range Frame() {
		got += fmt.Sprintf("%s: %s\n", c.Name, strings.Join(c.Rules, "; "))
	}
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestNamesAreOfKindAndContent(t *testing.T) {
	names := map[string]bool{}
	for _, n := range []string{name("a", "b", "c"), name("a", "bc"), name("a", "b", "d"), name("b", "b", "c")} {
		names[n] = true
		if len(n) != len("a-")+16 {
			t.Errorf("got %s, want a dash and 16 digits after the kind", n)
		}
	}
	if first, again := name("a", "b", "c"), name("a", "b", "c"); len(names) != 4 || first != again {
		t.Errorf("got %v, want four names, each the same every time", names)
	}
}

func TestPodPolicies(t *testing.T) {
	one, two := PodPolicies{Ingress: []string{"a"}}, PodPolicies{Egress: []string{"a"}}
	for _, c := range []struct {
		a, b  PodPolicies
		equal bool
	}{{one, one, true}, {one, two, false}, {two, PodPolicies{}, false}, {PodPolicies{}, PodPolicies{}, true}} {
		if got := c.a.Equal(c.b); got != c.equal {
			t.Errorf("%v and %v: got %t, want %t", c.a, c.b, got, c.equal)
		}
	}
	in := cluster(policy("b", func(s *networkingv1.NetworkPolicySpec) {}), nil,
		policy("a", func(s *networkingv1.NetworkPolicySpec) {
			s.PolicyTypes = []networkingv1.PolicyType{"Egress", "Ingress"}
		}))
	got := PoliciesByPod(in)
	want := PodPolicies{Ingress: []string{"a", "b"}, Egress: []string{"a"}}
	if len(got) != 1 || !got[PodID{"x", "web", ""}].Equal(want) {
		t.Errorf("got %v, want %v of web alone", got, want)
	}
}
