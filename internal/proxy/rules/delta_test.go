package rules_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// kernel is a table that refuses what nftables refuses: a way to a chain that is not there, to add
// what is there, and to delete what is not there or is led to.
type kernel struct{ rules.State }

func (k kernel) apply(op rules.Op) error {
	chain, there := k.Chains[op.Name]
	timeout, set := k.Affinity[op.Name]
	e := rules.Element{Set: op.Name, Key: op.Key}
	verdict, element := k.Elements[e]
	switch op.Verb {
	case rules.AddAffinity:
		k.Affinity[op.Name] = op.Timeout
	case rules.AddChain:
		k.Chains[op.Name] = nil
	case rules.AddRule:
		k.Chains[op.Name] = append(chain, op.Text)
	case rules.AddElement:
		k.Elements[e] = op.Text
	case rules.DeleteElement:
		delete(k.Elements, e)
	case rules.DeleteChain:
		delete(k.Chains, op.Name)
	case rules.DeleteAffinity:
		delete(k.Affinity, op.Name)
	}
	switch op.Verb {
	case rules.AddAffinity:
		if set {
			return fmt.Errorf("it is there, with %d s", timeout)
		}
	case rules.AddChain, rules.AddElement:
		if there || element {
			return fmt.Errorf("it is there")
		}
	case rules.DeleteElement:
		if !element || verdict != op.Text {
			return fmt.Errorf("it is %q", verdict)
		}
	case rules.AddRule, rules.DeleteChain:
		if !there {
			return fmt.Errorf("there is no such chain")
		}
	case rules.DeleteAffinity:
		if !set {
			return fmt.Errorf("there is no such set")
		}
	}
	return k.dangling()
}

// dangling finds a Service's chain or set that is referred to and not there.
func (k kernel) dangling() error {
	texts := []string{}
	for _, chain := range k.Chains {
		texts = append(texts, chain...)
	}
	for _, v := range k.Elements {
		texts = append(texts, v)
	}
	for _, word := range strings.Fields(strings.Join(texts, " ")) {
		name := strings.Trim(word, "@,")
		_, chain := k.Chains[name]
		if _, set := k.Affinity[name]; rules.IsServiceObject(name) && !chain && !set {
			return fmt.Errorf("%s is not there", name)
		}
	}
	return nil
}

func anyState(t *rapid.T, name string) rules.State {
	var ends []end
	for i := range rapid.IntRange(0, 10).Draw(t, name+" endpoints") {
		ends = append(ends, end{ip: fmt.Sprintf("10.1.0.%d", i+1), node: fmt.Sprintf("n%d", i%2)})
	}
	p := ports(service(func(s *v1.Service) {
		s.Spec.Type = v1.ServiceTypeLoadBalancer
		s.Spec.Ports[0].NodePort = rapid.SampledFrom([]int32{0, 30080, 30081}).Draw(t, name+" node port")
		s.Spec.ExternalTrafficPolicy = rapid.SampledFrom([]v1.ServiceExternalTrafficPolicy{"Local", "Cluster"}).Draw(t,
			name+" policy")
		s.Spec.SessionAffinity = rapid.SampledFrom([]v1.ServiceAffinity{"ClientIP", "None"}).Draw(t, name+" affinity")
		s.Spec.LoadBalancerSourceRanges = rapid.SampledFrom([][]string{nil, {"192.0.2.0/24"}}).Draw(t, name+" ranges")
		s.Status.LoadBalancer.Ingress = rapid.SampledFrom([][]v1.LoadBalancerIngress{nil,
			{{IP: "203.0.113.1"}}}).Draw(t, name+" balancer")
	}), slice(8080, ends...))[0]
	return p.State(rules.Settings{Family: rules.IPv4, LocalDetector: rules.LocalTrafficDetector{Interface: "gx"}})
}

// From any Service to any other: the kernel accepts each operation, in their order, and has what is
// wanted then.
func TestOperationsAreInTheKernelsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have, want := anyState(t, "have"), anyState(t, "want")
		k := kernel{rules.NewState()}
		k.Add(have)
		for _, unit := range rules.Delta(have, want) {
			for i, op := range unit {
				if err := k.apply(op); err != nil {
					t.Fatalf("%v (%d of its unit): %v, want no error", op, i, err)
				}
			}
		}
		if diff := cmp.Diff(want, k.State); diff != "" {
			t.Fatalf("another state than wanted (-want +got):\n%s", diff)
		}
	})
}

// The changes of several owners as one: it leads from what all wanted to what they want.
func TestChangesOfSeveralOwnersAreOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rules.NewDesiredState()
		wanted := func(n int, name string) rules.State {
			s := rules.NewState()
			for _, k := range rapid.SliceOfN(rapid.IntRange(0, 3), 0, 4).Draw(t, name) {
				s.Elements[rules.Element{Set: "service-ips", Key: fmt.Sprint(k)}] = fmt.Sprint("goto ", name)
				s.Chains[fmt.Sprintf("service-%d-%d", k, n)] = []string{"a"}
				s.Affinity[fmt.Sprintf("affinity-%d-%d", k, n)] = 1
			}
			return s
		}
		owner := func(n int) rules.Owner {
			return rules.Owner{Name: fmt.Sprint("default/s", n), Created: int64(n * 7 % 3)}
		}
		for n := range 3 {
			b.Set(owner(n), wanted(n, fmt.Sprint("first", n)))
		}
		k := kernel{b.All()}
		c := rules.NewChange()
		for _, n := range rapid.SampledFrom([][]int{{0, 1, 2}, {2, 1, 0}, {1}, {1, 2}}).Draw(t, "order") {
			c.Merge(b.Set(owner(n), wanted(n, fmt.Sprint("second", n))))
		}
		for _, op := range slices.Concat(rules.Delta(c.Was, c.Now)...) {
			if err := k.apply(op); err != nil {
				t.Fatalf("%v: got error %v, want none", op, err)
			}
		}
		if diff := cmp.Diff(b.All(), k.State); diff != "" {
			t.Fatalf("another state than wanted (-want +got):\n%s", diff)
		}
	})
}

// Which UDP flows end: those to an address or port of a Service, external ones too, that lead to
// none of its endpoints.
func TestFlowsToAllAddresses(t *testing.T) {
	at := netip.MustParseAddrPort
	p := rules.ServicePort{Protocol: "udp", Number: 53, Addresses: rules.Addresses{
		Cluster:       netip.MustParseAddr("10.96.0.10"),
		External:      []netip.Addr{netip.MustParseAddr("192.0.2.9")},
		LoadBalancers: []netip.Addr{netip.MustParseAddr("203.0.113.1")}}}
	f := rules.NewUDPFlows([]rules.ServicePort{p})
	for _, asked := range []string{"10.96.0.10:53", "192.0.2.9:53", "203.0.113.1:53"} {
		if !f.Stale(at(asked), at("10.1.0.1:53")) {
			t.Errorf("%s without endpoints: the flow stays, want it stale", asked)
		}
	}
	if got, want := []bool{
		f.Stale(at("192.0.2.1:0"), at("10.1.0.1:53")), f.Stale(at("192.0.2.1:1"), at("10.1.0.1:53")),
	}, []bool{false, false}; !slices.Equal(got, want) {
		t.Errorf("no node port, and a flow is stale for one: got %v, want %v", got, want)
	}
	p.NodePort = 30053
	p.Protocol = "tcp"
	if tcp := rules.NewUDPFlows([]rules.ServicePort{p}); !tcp.Empty() || f.Empty() {
		t.Errorf("got no flows of TCP: %t, of UDP: %t, want true, false", tcp.Empty(), f.Empty())
	}
}

// What is told about ports whose flows may be stale.
func TestStalePorts(t *testing.T) {
	port := func(number, node uint16, ends ...string) rules.ServicePort {
		p := rules.ServicePort{Protocol: "udp", Number: number, NodePort: node,
			Addresses: rules.Addresses{Cluster: netip.MustParseAddr("10.96.0.10")}}
		for _, e := range ends {
			p.LocalEndpoints = append(p.LocalEndpoints, rules.Endpoint{AddrPort: netip.MustParseAddrPort(e)})
			p.ClusterEndpoints = append(p.ClusterEndpoints, rules.Endpoint{AddrPort: netip.MustParseAddrPort(e)})
		}
		return p
	}
	tcp := func(p rules.ServicePort) rules.ServicePort {
		p.Protocol = "tcp"
		return p
	}
	const a, b = "10.1.0.1:53", "10.1.0.2:53"
	for name, c := range map[string]struct{ was, now []rules.ServicePort }{
		"gone, without its endpoints": {[]rules.ServicePort{port(53, 0, a)}, nil},
		"another number":              {[]rules.ServicePort{port(53, 0, a)}, []rules.ServicePort{port(54, 0, a)}},
		"another node port":           {[]rules.ServicePort{port(53, 1, a)}, []rules.ServicePort{port(53, 2, a)}},
		"now TCP":                     {[]rules.ServicePort{port(53, 1, a)}, []rules.ServicePort{tcp(port(53, 1, a))}},
		"TCP of the same number before": {[]rules.ServicePort{tcp(port(53, 1, a)), port(53, 1, a, b)},
			[]rules.ServicePort{tcp(port(53, 1, b)), port(53, 1, a, b)}},
		"none, as before":       {[]rules.ServicePort{port(53, 1)}, []rules.ServicePort{port(53, 1)}},
		"one of two is another": {[]rules.ServicePort{port(53, 1, a)}, []rules.ServicePort{port(53, 1, b)}},
	} {
		want := map[string]string{
			"gone, without its endpoints": "53/0/[]", "another number": "53/0/[] 54/0/[" + a + " " + a + "]",
			"another node port": "53/1/[] 53/2/[" + a + " " + a + "]", "now TCP": "53/1/[]",
			"one of two is another": "53/1/[" + b + " " + b + "]",
		}[name]
		var got []string
		for _, p := range rules.StaleUDPPorts(c.was, c.now) {
			got = append(got, fmt.Sprintf("%d/%d/%v", p.Number, p.NodePort,
				slices.Concat(p.ClusterEndpoints, p.LocalEndpoints)))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: got %q, want %q", name, s, want)
		}
	}
}
