package packet_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/trace/packet"
	"github.com/gantry-project/gantry/test/wrappers"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata")

func pod(name, node, ip string, f ...func(*v1.Pod)) *v1.Pod {
	p := wrappers.MakePod().Namespace("shop").Name(name).UID(name).Node(node).
		Containers(v1.Container{Name: "app",
			Ports: []v1.ContainerPort{{Name: "web", ContainerPort: 8080, Protocol: v1.ProtocolTCP}}}).
		Phase(v1.PodRunning).Obj()
	p.Spec.DNSPolicy = v1.DNSClusterFirst
	p.Status.PodIP = ip
	p.Status.PodIPs = []v1.PodIP{{IP: ip}}
	if ip == "" {
		p.Status.PodIPs, p.Status.Phase = nil, v1.PodPending
	}
	for _, x := range f {
		x(p)
	}
	return p
}

func node(name, ip, cidr string) *v1.Node {
	n := wrappers.MakeNode().Name(name).Obj()
	n.Spec.PodCIDR = cidr
	n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: ip}}
	n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	return n
}

func service(name, ip string, f ...func(*v1.Service)) *v1.Service {
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: v1.ServiceSpec{Type: v1.ServiceTypeClusterIP, ClusterIP: ip, Selector: map[string]string{"app": name},
			Ports: []v1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("web"),
				Protocol: v1.ProtocolTCP}}}}
	for _, x := range f {
		x(s)
	}
	return s
}

// slice lists Pods; those with a ! are not ready, those with a - end.
func slice(service string, ends ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: service + "-1",
		Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)),
			Protocol: new(v1.ProtocolTCP)}}}
	for _, e := range ends {
		ready, ending := !strings.ContainsAny(e, "!-"), strings.Contains(e, "-")
		name, rest, _ := strings.Cut(strings.TrimRight(e, "!-"), "@")
		ip, at, _ := strings.Cut(rest, "@")
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}, NodeName: &at,
			TargetRef:  &v1.ObjectReference{Kind: "Pod", Name: name},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready, Terminating: &ending}})
	}
	return s
}

func sockets(all ...string) map[types.NamespacedName][]string {
	out := map[types.NamespacedName][]string{}
	for _, a := range all {
		name, s, _ := strings.Cut(a, " ")
		out[types.NamespacedName{Namespace: "shop", Name: name}] = strings.Fields(s)
	}
	return out
}

// stateFixture is a, b0 on n1 and b1 on n2; Service b has both.
func stateFixture(f ...func(*packet.ClusterState)) packet.ClusterState {
	w := packet.ClusterState{
		Nodes:    []*v1.Node{node("n1", "192.0.2.1", "10.72.1.0/24"), node("n2", "192.0.2.2", "10.72.2.0/24")},
		Pods:     []*v1.Pod{pod("a", "n1", "10.72.1.2"), pod("b0", "n1", "10.72.1.3"), pod("b1", "n2", "10.72.2.3")},
		Services: []*v1.Service{service("b", "10.96.0.9")},
		Slices:   []*discoveryv1.EndpointSlice{slice("b", "b0@10.72.1.3@n1", "b1@10.72.2.3@n2")},
		Sockets:  sockets("b0 *:8080", "b1 *:8080"),
	}
	for _, x := range f {
		x(&w)
	}
	return w
}

func edit(f func(*v1.Service)) func(*packet.ClusterState) {
	return func(w *packet.ClusterState) { f(w.Services[0]) }
}

func withEndpoints(all ...string) func(*packet.ClusterState) {
	return func(w *packet.ClusterState) { w.Slices = []*discoveryv1.EndpointSlice{slice("b", all...)} }
}

type denyAll struct{ to string }

func (d denyAll) Evaluate(_ packet.ClusterState, f packet.Flow) packet.PolicyResult {
	if f.To != nil && f.To.Name == d.to {
		return packet.PolicyResult{By: fmt.Sprintf("policy walls of namespace shop lets nobody to %s port %d",
			f.To.Name, f.Port), Fix: packet.Fix{Description: "let Pod " + f.From.Name + " in"}}
	}
	return packet.PolicyResult{Allowed: true, By: "no policy selects the Pod"}
}

func nodePort(s *v1.Service) {
	s.Spec.Type, s.Spec.Ports[0].NodePort = v1.ServiceTypeNodePort, 30080
}

func TestPacketSteps(t *testing.T) {
	var out strings.Builder
	for _, c := range []struct {
		name, from, to string
		w              packet.ClusterState
	}{
		{"both take it", "pod/a", "service/b:80", stateFixture()},
		{"by name and port name", "pod/a", "b.shop:http", stateFixture()},
		{"no such port, but that is the target", "pod/a", "service/b:8080",
			stateFixture(edit(func(s *v1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(8080) }))},
		{"nobody ready", "pod/a", "service/b:80", stateFixture(withEndpoints("b0@10.72.1.3@n1!", "b1@10.72.2.3@n2-"))},
		{"no endpoints at all", "pod/a", "10.96.0.9:80", stateFixture(withEndpoints())},
		{"one listens on loopback only", "pod/a", "service/b:80",
			stateFixture(func(w *packet.ClusterState) { w.Sockets = sockets("b0 127.0.0.1:8080", "b1 *:8080") })},
		{"listens on another port", "pod/a", "pod/b1:8080",
			stateFixture(func(w *packet.ClusterState) { w.Sockets = sockets("b1 *:9090") })},
		{"sockets not known", "pod/a", "service/b:80", stateFixture(func(w *packet.ClusterState) { w.Sockets = nil })},
		{"a policy denies", "pod/a", "service/b:80",
			stateFixture(withEndpoints("b1@10.72.2.3@n2"), func(w *packet.ClusterState) { w.Policy = denyAll{"b1"} })},
		{"policies that cannot be evaluated", "pod/a", "service/b:80", stateFixture(func(w *packet.ClusterState) {
			w.Policies = []*networkingv1.NetworkPolicy{
				{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "walls"}}}
		})},
		{"cluster IP from outside", "198.51.100.7", "10.96.0.9:80", stateFixture()},
		{"node port", "198.51.100.7", "node/n1:30080", stateFixture(edit(nodePort))},
		{"node port, Local, none there", "198.51.100.7", "192.0.2.2:30080",
			stateFixture(withEndpoints("b0@10.72.1.3@n1"), edit(func(s *v1.Service) {
				nodePort(s)
				s.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
			}))},
		{"internal policy Local, none here", "pod/a", "service/b:80",
			stateFixture(withEndpoints("b1@10.72.2.3@n2"),
				edit(func(s *v1.Service) {
					s.Spec.InternalTrafficPolicy = new(v1.ServiceInternalTrafficPolicyLocal)
				}))},
		{"load balancer, sender not in range", "198.51.100.7", "203.0.113.1:80", stateFixture(edit(func(s *v1.Service) {
			s.Spec.Type, s.Spec.LoadBalancerSourceRanges = v1.ServiceTypeLoadBalancer, []string{"192.0.2.0/24"}
			s.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "203.0.113.1"}}
		}))},
		{"affinity", "pod/a", "service/b:80",
			stateFixture(edit(func(s *v1.Service) { s.Spec.SessionAffinity = v1.ServiceAffinityClientIP }))},
		{"headless", "pod/a", "service/b:80", stateFixture(edit(func(s *v1.Service) {
			s.Spec.ClusterIP, s.Spec.Ports[0].TargetPort = v1.ClusterIPNone, intstr.FromInt32(8080)
		}))},
		{"ExternalName", "pod/a", "service/b:80", stateFixture(edit(func(s *v1.Service) {
			s.Spec = v1.ServiceSpec{Type: v1.ServiceTypeExternalName, ExternalName: "db.example.com"}
		}))},
		{"name from the host's network", "pod/a", "b.shop.svc.cluster.local:80",
			stateFixture(func(w *packet.ClusterState) { w.Pods[0].Spec.HostNetwork = true })},
		{"name of another namespace", "pod/a", "api:80", stateFixture(func(w *packet.ClusterState) {
			s := service("api", "10.96.0.10")
			s.Namespace = "back"
			w.Services = append(w.Services, s)
		})},
		{"a name of the world", "pod/a", "www.example.com:443", stateFixture()},
		{"a slice that is behind", "pod/a", "service/b:80", stateFixture(withEndpoints("b7@10.72.1.9@n1"))},
		{"no route", "pod/a", "pod/b1:8080",
			stateFixture(func(w *packet.ClusterState) { w.Nodes[1].Spec.PodCIDR = "10.99.0.0/24" })},
		{"its node fell silent", "pod/a", "pod/b1:8080",
			stateFixture(
				func(w *packet.ClusterState) { w.Nodes[1].Status.Conditions[0].Status = v1.ConditionUnknown })},
		{"sender not running", "pod/late", "service/b:80",
			stateFixture(func(w *packet.ClusterState) { w.Pods = append(w.Pods, pod("late", "", "")) })},
		{"to itself", "pod/b0", "service/b:80", stateFixture(withEndpoints("b0@10.72.1.3@n1"))},
		{"no such Service", "pod/a", "service/bb:80", stateFixture()},
		{"a process of the node", "pod/a", "node/n1:22", stateFixture()},
	} {
		from, err := packet.ReadFrom(c.from, "shop")
		if err != nil {
			t.Fatal(err)
		}
		ask, err := packet.ReadTo(c.to, "shop", "")
		if err != nil {
			t.Fatal(err)
		}
		ask.From = from
		fmt.Fprintf(&out, "# %s\n", c.name)
		if err := packet.Trace(c.w, ask).WriteText(&out); err != nil {
			t.Fatal(err)
		}
		out.WriteString("\n")
	}
	const golden = "testdata/packets.txt"
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
		t.Errorf("`go test -rewrite` writes %s anew:\n%s", golden, diff)
	}
}

// Each row is policies, and what happens to TCP 8080 from Pod a to Pod b0, and from b0 to a
// stranger.
func TestPacketFollowsNetworkPolicies(t *testing.T) {
	ingress := func(f func(*networkingv1.NetworkPolicySpec)) *networkingv1.NetworkPolicy {
		p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "walls"},
			Spec: networkingv1.NetworkPolicySpec{
				PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"name": "b0"}},
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}}}
		if f != nil {
			f(&p.Spec)
		}
		return p
	}
	from := func(p ...networkingv1.NetworkPolicyPeer) func(*networkingv1.NetworkPolicySpec) {
		return func(s *networkingv1.NetworkPolicySpec) {
			s.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: p}}
		}
	}
	ports := func(p ...networkingv1.NetworkPolicyPort) func(*networkingv1.NetworkPolicySpec) {
		return func(s *networkingv1.NetworkPolicySpec) {
			s.Ingress = []networkingv1.NetworkPolicyIngressRule{{Ports: p}}
		}
	}
	port := func(v intstr.IntOrString, end int32) networkingv1.NetworkPolicyPort {
		p := networkingv1.NetworkPolicyPort{Port: &v}
		if end > 0 {
			p.EndPort = &end
		}
		return p
	}
	labelled := func(name string) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{
			PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": name}}}
	}
	block := func(cidr string, except ...string) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}}
	}
	egress := func(s *networkingv1.NetworkPolicySpec) {
		s.PodSelector.MatchLabels["name"] = "a"
		s.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
	}
	for _, c := range []struct {
		name   string
		policy *networkingv1.NetworkPolicy
		passes bool
	}{
		{"nobody gets in", ingress(nil), false},
		{"everybody gets in", ingress(from()), true},
		{"a by its label", ingress(from(labelled("a"))), true},
		{"others by theirs", ingress(from(labelled("b1"))), false},
		{"a range that has a", ingress(from(block("10.72.0.0/16"))), true},
		{"a range without a", ingress(from(block("10.72.0.0/16", "10.72.1.0/24"))), false},
		{"the port by number", ingress(ports(port(intstr.FromInt32(8080), 0))), true},
		{"the port by name", ingress(ports(port(intstr.FromString("web"), 0))), true},
		{"another port", ingress(ports(port(intstr.FromInt32(80), 0))), false},
		{"a range of ports", ingress(ports(port(intstr.FromInt32(8000), 8100))), true},
		{"a may send nothing", ingress(egress), false},
		{"a may send to the named port", ingress(func(s *networkingv1.NetworkPolicySpec) {
			egress(s)
			s.Egress = []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{labelled("b0")},
				Ports: []networkingv1.NetworkPolicyPort{port(intstr.FromString("web"), 0)}}}
		}), true},
	} {
		w := stateFixture(func(w *packet.ClusterState) {
			w.Policy, w.Policies = packet.NetworkPolicies{}, []*networkingv1.NetworkPolicy{c.policy}
			w.Namespaces = []*v1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}
			for _, p := range w.Pods {
				p.Labels = map[string]string{"name": p.Name}
			}
		})
		got := packet.Trace(w, packet.Request{From: packet.Peer{Kind: "pod", Namespace: "shop", Name: "a"},
			To: packet.Peer{Kind: "pod", Namespace: "shop", Name: "b0"}, Port: "8080"})
		if (got.Outcome == packet.Delivered) != c.passes ||
			!c.passes && (got.Reason != packet.PolicyDenies || !strings.Contains(got.Cause,
				"NetworkPolicy walls isolates")) {
			t.Errorf("%s: got %s (%s), want delivered: %t; else PolicyDenies by NetworkPolicy walls", c.name,
				got.Outcome, got.Cause, c.passes)
		}
		if c.passes || len(got.Fixes) == 0 {
			continue
		}
		if after := packet.Trace(patched(t, w, got.Fixes[0].Run), packet.Request{From: packet.Peer{Kind: "pod",
			Namespace: "shop", Name: "a"}, To: packet.Peer{Kind: "pod", Namespace: "shop", Name: "b0"},
			Port: "8080"}); after.Outcome != packet.Delivered {
			t.Errorf("%s: got %s (%s) after %q, want it delivered", c.name, after.Outcome, after.Cause,
				got.Fixes[0].Run)
		}
	}
}

// patched is the state after the command that a trace printed for its one policy.
func patched(t *testing.T, w packet.ClusterState, command string) packet.ClusterState {
	t.Helper()
	text, ok := strings.CutPrefix(command, "kubectl -n shop patch networkpolicy walls --type=json -p '")
	if !ok {
		t.Fatalf("got command %q, want a patch of NetworkPolicy walls", command)
	}
	patch, err := jsonpatch.DecodePatch([]byte(strings.TrimSuffix(text, "'")))
	if err != nil {
		t.Fatalf("%s: got error %v, want a patch that applies", command, err)
	}
	raw, err := json.Marshal(w.Policies[0])
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = patch.Apply(raw); err != nil {
		t.Fatalf("%s: got error %v, want a patch that applies", command, err)
	}
	p := &networkingv1.NetworkPolicy{}
	if err := json.Unmarshal(raw, p); err != nil {
		t.Fatal(err)
	}
	w.Policies = []*networkingv1.NetworkPolicy{p}
	return w
}

func TestEndsOfPacketsAreParsed(t *testing.T) {
	for _, bad := range []string{"", "service/b", "b:", ":80", "service/b:0", "service/b:70000", "box/b:80",
		"service/:80", "service/a/b/c:80"} {
		if _, err := packet.ReadTo(bad, "shop", "tcp"); err == nil || !strings.Contains(err.Error(), "--to") {
			t.Errorf("--to %q: %v, want an error that names it", bad, err)
		}
	}
	for _, bad := range []string{"", "service/b", "a", "pod/", "box/a"} {
		if _, err := packet.ReadFrom(bad, "shop"); err == nil || !strings.Contains(err.Error(), "--from") {
			t.Errorf("--from %q: %v, want an error that names it", bad, err)
		}
	}
	if _, err := packet.ReadTo("b:80", "shop", "icmp"); err == nil || !strings.Contains(err.Error(), "--protocol") {
		t.Errorf("protocol icmp: %v", err)
	}
	a, err := packet.ReadTo("svc/back/api:http", "shop", "udp")
	if err != nil || a.To != (packet.Peer{Kind: "service", Namespace: "back", Name: "api"}) || a.Port != "http" ||
		a.Protocol != "UDP" {
		t.Errorf("got %+v, %v", a, err)
	}
	a, err = packet.ReadTo("[fd00::1]:80", "shop", "")
	if err != nil || a.To.Addr != netip.MustParseAddr("fd00::1") {
		t.Errorf("got %+v, %v", a, err)
	}
}

// Whatever the cluster has, there is an outcome with a cause, and nothing panics.
func TestEveryPacketGetsAResult(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		address := rapid.SampledFrom([]string{"", "10.72.1.3", "10.96.0.9", "fd00::1", "nonsense", "127.0.0.1", "None",
			"192.0.2.1"})
		w := stateFixture()
		w.Services[0].Spec.ClusterIP = address.Draw(r, "cluster IP")
		w.Services[0].Spec.Type = rapid.SampledFrom([]v1.ServiceType{"", v1.ServiceTypeNodePort,
			v1.ServiceTypeLoadBalancer, v1.ServiceTypeExternalName}).Draw(r, "type")
		w.Services[0].Spec.Ports[0].NodePort = rapid.Int32Range(-1, 70000).Draw(r, "node port")
		w.Pods[0].Status.PodIPs = []v1.PodIP{{IP: address.Draw(r, "sender")}}
		w.Slices[0].Endpoints[0].Addresses = rapid.SliceOfN(address, 0, 2).Draw(r, "endpoint")
		w.Slices[0].Endpoints[0].TargetRef = nil
		w.Nodes = w.Nodes[:rapid.IntRange(0, 2).Draw(r, "nodes")]
		from := rapid.SampledFrom([]packet.Peer{{}, {Kind: "pod", Namespace: "shop", Name: "a"}, {Kind: "pod"},
			{Kind: "node", Name: "n1"}, {Kind: "address"},
			{Kind: "address", Addr: netip.MustParseAddr("198.51.100.7")}}).Draw(r, "from")
		to := rapid.SampledFrom([]packet.Peer{{}, {Kind: "service", Namespace: "shop", Name: "b"},
			{Kind: "name", Name: "b"}, {Kind: "name", Name: "."}, {Kind: "node", Name: "n1"},
			{Kind: "pod", Namespace: "shop", Name: "b0"}, {Kind: "address"},
			{Kind: "address", Addr: netip.MustParseAddr("10.96.0.9")}}).Draw(r, "to")
		port := rapid.SampledFrom([]string{"", "80", "http", "web", "30080", "99999", "-1"}).Draw(r, "port")
		if got := packet.Trace(w, packet.Request{From: from, To: to, Port: port}); got.Outcome == "" ||
			got.Cause == "" {
			r.Fatalf("got no result: %+v", got)
		}
	})
}
