package servicelb

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/test/wrappers"
)

func balancer(name string, age time.Duration, f ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name,
		CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.0.0.9",
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports:      []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}}}
	for _, x := range f {
		x(s)
	}
	return s
}

func machine(name string, ready bool, addresses ...corev1.NodeAddress) *corev1.Node {
	state := corev1.ConditionFalse
	if ready {
		state = corev1.ConditionTrue
	}
	n := wrappers.MakeNode().Name(name).Obj()
	n.Status.Addresses = addresses
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: state}}
	n.Status.DaemonEndpoints = corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}}
	return n
}

func internal(ip string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip}
}

func slice(namespace, service, ip, node string, port int32, ready bool) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		Ports: []discoveryv1.EndpointPort{{Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{ip}, NodeName: &node,
			Conditions: discoveryv1.EndpointConditions{Ready: &ready}}}}
}

func TestAddressesOfLoadBalancers(t *testing.T) {
	n1, n2 := machine("n1", true, internal("192.0.2.1"), internal("fd00::1")),
		machine("n2", true, internal("192.0.2.2"))
	local := func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }
	port := func(n int32) func(*corev1.Service) { return func(s *corev1.Service) { s.Spec.Ports[0].Port = n } }
	host := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "edge"},
		Spec: corev1.PodSpec{NodeName: "n1",
			Containers: []corev1.Container{
				{Ports: []corev1.ContainerPort{{HostPort: 80, Protocol: corev1.ProtocolTCP}}}}}}
	excluded := n1.DeepCopy()
	excluded.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""}
	going := n1.DeepCopy()
	going.Spec.Taints = []corev1.Taint{{Key: toBeDeleted}}
	nodes := func(all ...*corev1.Node) Input { return Input{Nodes: all} }
	for _, c := range []struct {
		name string
		s    *corev1.Service
		w    Input
		want string // addresses
		why  string
	}{
		{"every node's", balancer("a", 0), nodes(n2, n1), "192.0.2.1 192.0.2.2", ""},
		{"external before internal ones", balancer("a", 0),
			nodes(machine("n1", true, internal("192.0.2.1"), corev1.NodeAddress{Type: corev1.NodeExternalIP,
				Address: "203.0.113.1"})), "203.0.113.1", ""},
		{"both families", balancer("a", 0, func(s *corev1.Service) {
			s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
		}), nodes(n1), "fd00::1 192.0.2.1", ""},
		{"no address of the family",
			balancer("a", 0, func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }),
			nodes(n2), "", "no node has an address of its families"},
		{"ready ones", balancer("a", 0), nodes(n1, machine("n2", false, internal("192.0.2.2"))), "192.0.2.1", ""},
		{"none ready: no flapping", balancer("a", 0), nodes(machine("n2", false, internal("192.0.2.2"))), "192.0.2.2",
			""},
		{"excluded by label", balancer("a", 0), nodes(excluded, n2), "192.0.2.2", ""},
		{"going by the autoscaler", balancer("a", 0), nodes(going), "", "no available nodes"},
		{"no nodes", balancer("a", 0), Input{}, "", "no available nodes"},
		{"loopback is nobody's", balancer("a", 0), nodes(machine("n1", true, internal("127.0.0.1"))), "",
			"no node has an address"},
		{"Local: where an endpoint is", balancer("a", 0, local),
			Input{Nodes: []*corev1.Node{n1, n2},
				Slices: []*discoveryv1.EndpointSlice{slice("shop", "a", "10.1.0.1", "n2", 8080, true),
					slice("shop", "a", "10.1.0.2", "n1", 8080, false)}}, "192.0.2.2", ""},
		{"Local: nowhere", balancer("a", 0, local), nodes(n1), "", "externalTrafficPolicy is Local"},
		{"a port that an older one has", balancer("a", 0),
			Input{Nodes: []*corev1.Node{n1}, Services: []*corev1.Service{balancer("old", time.Hour),
				balancer("older", 2*time.Hour)}}, "", "port 80/TCP is what Service shop/older has"},
		{"the older one keeps it", balancer("a", time.Hour),
			Input{Nodes: []*corev1.Node{n1}, Services: []*corev1.Service{balancer("young", 0)}}, "192.0.2.1", ""},
		{"another's class takes nothing", balancer("a", 0),
			Input{Nodes: []*corev1.Node{n1},
				Services: []*corev1.Service{
					balancer("old", time.Hour,
						func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("example.com/x") })}}, "192.0.2.1",
			""},
		{"the kubelet's port", balancer("a", 0, port(10250)), nodes(n1), "", "its kubelet's"},
		{"the API server's port", balancer("a", 0, port(6443)),
			Input{Nodes: []*corev1.Node{n1, n2},
				Slices: []*discoveryv1.EndpointSlice{slice("default", "kubernetes", "192.0.2.1", "", 6443, true)}},
			"192.0.2.2", ""},
		{"a Pod's host port", balancer("a", 0), Input{Nodes: []*corev1.Node{n1, n2}, Pods: []*corev1.Pod{host}},
			"192.0.2.2", ""},
		{"a Pod's host port, the only node", balancer("a", 0),
			Input{Nodes: []*corev1.Node{n1}, Pods: []*corev1.Pod{host}}, "", "hostPort of Pod shop/edge"},
		{"the address asked for", balancer("a", 0, func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.2" }),
			nodes(n1, n2), "192.0.2.2", ""},
		{"an address nobody has", balancer("a", 0, func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.9" }),
			nodes(n1, n2), "", "192.0.2.9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, why := Ingress(c.s, c.w)
			var all []string
			for _, in := range got {
				all = append(all, in.IP)
			}
			if text := strings.Join(all, " "); text != c.want || (why == "") != (c.why == "") || !strings.Contains(why,
				c.why) {
				t.Errorf("got %q (%s), want %q (%s)", text, why, c.want, c.why)
			}
		})
	}
}
