package rules_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// Lookup and the rules agree, whatever the Service and its endpoints are.
func TestLookupAgreesWithTheRules(t *testing.T) {
	settings := rules.Settings{Family: rules.IPv4, LocalDetector: rules.LocalTrafficDetector{Interface: "gx"}}
	rapid.Check(t, func(r *rapid.T) {
		var ends []end
		for i := range rapid.IntRange(0, 4).Draw(r, "endpoints") {
			ends = append(ends,
				end{ip: fmt.Sprintf("10.1.0.%d", i+1), node: rapid.SampledFrom([]string{"n1", "n2"}).Draw(r, "node"),
					state: rapid.SampledFrom([]string{"", "unready", "ending", "ended"}).Draw(r, "state")})
		}
		p := ports(service(func(s *v1.Service) {
			s.Spec.Type = v1.ServiceTypeLoadBalancer
			s.Spec.Ports[0].NodePort = rapid.SampledFrom([]int32{0, 30080}).Draw(r, "node port")
			s.Spec.ExternalIPs = []string{"192.0.2.9"}
			s.Spec.ExternalTrafficPolicy = rapid.SampledFrom(
				[]v1.ServiceExternalTrafficPolicy{v1.ServiceExternalTrafficPolicyLocal,
					v1.ServiceExternalTrafficPolicyCluster}).Draw(r, "external")
			s.Spec.InternalTrafficPolicy = new(
				rapid.SampledFrom([]v1.ServiceInternalTrafficPolicy{v1.ServiceInternalTrafficPolicyLocal,
					v1.ServiceInternalTrafficPolicyCluster}).Draw(r, "internal"))
		}), slice(8080, ends...))[0]
		state := p.State(settings)
		for _, way := range []rules.LookupQuery{{To: p.Addresses.Cluster, FromCluster: true},
			{To: p.Addresses.External[0], FromCluster: true}, {To: p.Addresses.External[0]},
			{NodePort: true, FromCluster: true}, {NodePort: true}} {
			services, none, key := "service-ips", "no-endpoint-services", fmt.Sprintf("%s . tcp . 80", way.To)
			if way.NodePort {
				services, none, key = "service-nodeports", "no-endpoint-nodeports", "tcp . 30080"
			}
			want := string(rules.Pass)
			if v, ok := state.Elements[rules.Element{Set: none, Key: key}]; ok {
				want = map[string]string{"drop": "drop", "goto reject-chain": "reject"}[v]
			}
			if v, ok := state.Elements[rules.Element{Set: services, Key: key}]; ok {
				if to := reached(state, strings.TrimPrefix(v, "goto "), way.FromCluster); to != "" || want == "pass" {
					want = "lead " + to
				}
			}
			got := p.Lookup(way)
			output := strings.TrimSpace(string(got.Action) + " " + list(got.Endpoints))
			if got.Action != rules.Forward {
				output = string(got.Action)
			}
			if output != strings.TrimSpace(want) {
				r.Fatalf("%+v: Look says %q, the rules do %q\n%s", way, output, want, text(state))
			}
		}
	})
}

// reached follows a chain's rules and lists the endpoints, in order.
func reached(s rules.State, chain string, inside bool) string {
	var out []string
	for _, rule := range s.Chains[chain] {
		condition, to, jumps := strings.Cut(rule, "goto ")
		switch {
		case strings.Contains(rule, "dnat to "):
			_, at, _ := strings.Cut(rule, "dnat to ")
			out = append(out, at)
		case jumps && (condition == "" || inside && strings.Contains(condition, "iifname")):
			return reached(s, to, inside)
		}
	}
	return strings.Join(out, " ")
}

func TestSourceRangesBar(t *testing.T) {
	p := ports(service(func(s *v1.Service) {
		s.Spec.Type, s.Spec.LoadBalancerSourceRanges = v1.ServiceTypeLoadBalancer, []string{"198.51.100.0/24"}
		s.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "203.0.113.1"}}
	}), slice(8080, end{ip: "10.1.0.1", node: "n1"}))[0]
	at := netip.MustParseAddr
	if got := p.Lookup(rules.LookupQuery{To: at("203.0.113.1"), From: at("192.0.2.1")}); got.Action != rules.Drop ||
		!got.SourceDenied {
		t.Errorf("a stranger: got %+v, want Action %v and SourceDenied true", got, rules.Drop)
	}
	if got := p.Lookup(rules.LookupQuery{To: at("203.0.113.1"), From: at("198.51.100.9")}); got.Action !=
		rules.Forward {
		t.Errorf("one of the range: got %+v, want Action %v", got, rules.Forward)
	}
	if got := p.Lookup(rules.LookupQuery{To: at("203.0.113.77")}); got.Action != rules.Pass {
		t.Errorf("another address: %+v", got)
	}
}
