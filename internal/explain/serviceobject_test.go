package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/trace/packet"
	"github.com/gantry-project/gantry/test/wrappers"
)

// shopFixture is Service web with Pods on n1, ready or not.
func shopFixture(change func(*corev1.Service), pods ...*corev1.Pod) Subject {
	x := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.9",
			Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080),
				Protocol: corev1.ProtocolTCP}}}}
	if change != nil {
		change(x)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop",
		Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}}}
	s := Subject{Kind: "service", Object: x, ClusterContext: &ClusterContext{Nodes: []*corev1.Node{node}},
		NamespaceContext: &NamespaceContext{Ready: map[string]int{}}}
	w := &packet.ClusterState{Services: []*corev1.Service{x}, Nodes: s.ClusterContext.Nodes,
		Slices: []*discoveryv1.EndpointSlice{slice}, Sockets: map[types.NamespacedName][]string{}}
	for _, p := range pods {
		s.ClusterContext.Pods, w.Pods = append(s.ClusterContext.Pods, p), append(w.Pods, p)
		if p.Labels["app"] != "web" {
			continue
		}
		s.Pods = append(s.Pods, p)
		ready := pod.IsReady(p)
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{p.Status.PodIP},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready}, NodeName: &p.Spec.NodeName,
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: p.Name}})
		w.Sockets[types.NamespacedName{Namespace: "shop", Name: p.Name}] = []string{"*:8080"}
		if ready {
			s.NamespaceContext.Ready["web"]++
		}
	}
	s.PacketState = w
	if p := WorstPod(s.Pods, s.Now); p != nil {
		s.WorstPod = &In{Now: t0, Pod: p, Node: node}
		s.WorstPod.Ref.Name, s.WorstPod.Ref.Namespace = p.Name, p.Namespace
	}
	return s
}

func backendPod(name string, ready bool, ports ...corev1.ContainerPort) *corev1.Pod {
	state := corev1.ConditionFalse
	if ready {
		state = corev1.ConditionTrue
	}
	p := wrappers.MakePod().Namespace("shop").Name(name).Label("app", "web").Node("n1").
		Containers(corev1.Container{Name: "app", Ports: ports}).Phase(corev1.PodRunning).Obj()
	p.Status.PodIP = "10.72.1." + map[bool]string{true: "2",
		false: "3"}[ready]
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		{Type: corev1.PodReady, Status: state, LastTransitionTime: metav1.NewTime(t0.Add(-time.Minute))}}
	return p
}

func portNamed(name string, n int32) corev1.ContainerPort {
	return corev1.ContainerPort{Name: name, ContainerPort: n, Protocol: corev1.ProtocolTCP}
}

// Each row is a Service that is not reached, or only just, and what the answer says.
func TestWhyServices(t *testing.T) {
	crashing := backendPod("web-1", false)
	crashing.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", RestartCount: 4,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff",
			Message: "back-off 40s restarting failed container"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3,
			Reason: "Error"}}}}
	initial := backendPod("web-0", true, portNamed("metrics", 9090))
	initial.Spec.InitContainers = []corev1.Container{
		{Name: "setup", Ports: []corev1.ContainerPort{portNamed("http", 8080)}}}
	other := backendPod("web-0", true)
	other.Labels = map[string]string{"app": "wep"}
	byName := func(x *corev1.Service) { x.Spec.Ports[0].TargetPort = intstr.FromString("http") }
	moved := shopFixture(nil, backendPod("web-0", true))
	moved.PacketState.Sockets[types.NamespacedName{Namespace: "shop", Name: "web-0"}] = []string{"*:9090"}
	walled := shopFixture(nil, backendPod("web-0", true))
	walled.PacketState.Policies = []*networkingv1.NetworkPolicy{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "walls"},
			Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{"Ingress"}}}}
	loop := backendPod("web-0", true)
	loop.Status.PodIP = "127.0.0.1"
	looped := shopFixture(nil, loop)
	looped.NamespaceContext.Ready["web"] = 0
	going := backendPod("web-0", true)
	going.DeletionTimestamp = new(metav1.NewTime(t0))
	left := shopFixture(nil, going)
	left.NamespaceContext.Ready["web"] = 0
	for _, c := range []struct {
		name string
		s    Subject
		want []string
		not  string
	}{
		{"its Pods end", left, []string{"is without endpoints", "its Pods are being deleted (web-0)", "more replicas"},
			"not written yet"},
		{"works", shopFixture(nil, backendPod("web-0", true)), []string{"is Ready", "1 ready endpoint stands",
			"10.96.0.9, ports 80/TCP"}, "fails"},
		{"a label away", shopFixture(nil, other),
			[]string{"no endpoints", "app=web", "web-0, running and ready, is labelled app=wep", `{"app":"wep"}`}, ""},
		{"its Pod crashes", shopFixture(nil, crashing), []string{"no endpoints: the one Pod it selects is not ready",
			"Pod web-1 is CrashLoopBackOff", "code 3"}, ""},
		{"one of two", shopFixture(nil, backendPod("web-0", true), crashing),
			[]string{"1 of 2 Pods take the Service's traffic. Pod web-1 is CrashLoopBackOff"}, ""},
		{"port name misspelt", shopFixture(byName, backendPod("web-0", true, portNamed("htpp", 8080))),
			[]string{"port named http, and no container of its Pods has a port of that name", "web-0 has htpp",
				`"path":"/spec/ports/0/targetPort","value":"htpp"`}, ""},
		{"port of an init container", shopFixture(byName, initial),
			[]string{"init container setup has, but the ports of init containers are no part of a Service"}, ""},
		{"port of a sidecar", shopFixture(byName, func() *corev1.Pod {
			p := initial.DeepCopy()
			p.Spec.InitContainers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			return p
		}()), []string{"is Ready"}, "init container"},
		{"port of another protocol",
			shopFixture(byName,
				backendPod("web-0", true, corev1.ContainerPort{Name: "http", ContainerPort: 8080,
					Protocol: corev1.ProtocolUDP})), []string{"TCP port named http"}, ""},
		{"nobody listens", moved, []string{"not reached", "NobodyListens", "listen on *:9090", `"value":9090`}, ""},
		{"policy", walled, []string{"NetworkPolicy walls selects its Pods: it lets nobody in"}, ""},
		{"alias", shopFixture(func(x *corev1.Service) {
			x.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "db.example.com"}
		}), []string{"another name of db.example.com", "ports mean nothing"}, "headless"},
		{"alias of an address", shopFixture(func(x *corev1.Service) {
			x.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "192.0.2.1"}
		}), []string{"which is an address", "EndpointSlice with 192.0.2.1"}, ""},
		{"headless", shopFixture(func(x *corev1.Service) { x.Spec.ClusterIP = corev1.ClusterIPNone },
			backendPod("web-0", true)), []string{"is Ready", "headless", "who asks for port 80 is not led to 8080"},
			"not reached"},
		{"affinity", shopFixture(func(x *corev1.Service) { x.Spec.SessionAffinity = corev1.ServiceAffinityClientIP },
			backendPod("web-0", true)), []string{"10800 s"}, ""},
		{"Local and nobody on n1", shopFixture(func(x *corev1.Service) {
			x.Spec.ExternalTrafficPolicy, x.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 30999
		}, func() *corev1.Pod { p := backendPod("web-0", true); p.Spec.NodeName = "n2"; return p }()),
			[]string{"from outside to n1, which has no ready endpoint, is dropped", "port 30999"}, ""},
		{"load balancer of a class", shopFixture(func(x *corev1.Service) {
			x.Spec.Type, x.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new("example.com/lb")
		}, backendPod("web-0", true)), []string{"is Pending", "class example.com/lb"}, ""},
		{"load balancer without a free port", func() Subject {
			s := shopFixture(func(x *corev1.Service) { x.Spec.Type = corev1.ServiceTypeLoadBalancer },
				backendPod("web-0", true))
			s.Events = []corev1.Event{{Reason: "SyncLoadBalancerFailed",
				Message: "Error syncing load balancer: failed to ensure load balancer: port 80/TCP is what Service " +
					"shop/old has", LastTimestamp: metav1.NewTime(t0)}}
			return s
		}(), []string{"is Pending", "cannot be granted: port 80/TCP is what Service shop/old has. Inside"},
			"Error syncing"},
		{"no address", shopFixture(func(x *corev1.Service) { x.Spec.ClusterIP = "" }, backendPod("web-0", true)),
			[]string{"no cluster IP"}, ""},
		{"another proxy", shopFixture(func(x *corev1.Service) {
			x.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "other"}
		}, backendPod("web-0", true)), []string{"service-proxy-name=other", "service-proxy-name-"}, ""},
		{"loopback Pods", looped, []string{"127.0.0.1, which nobody outside its node reaches"}, ""},
		{"not ready on purpose", shopFixture(func(x *corev1.Service) { x.Spec.PublishNotReadyAddresses = true },
			backendPod("web-0", true)), []string{"publishNotReadyAddresses"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.s.Now, c.s.Namespace, c.s.Name = t0, "shop", "web"
			var b strings.Builder
			if err := WhyObject(c.s).WriteText(&b, t0); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(b.String(), want) {
					t.Errorf("lacks %q:\n%s", want, b.String())
				}
			}
			if c.not != "" && strings.Contains(b.String(), c.not) {
				t.Errorf("has %q:\n%s", c.not, b.String())
			}
		})
	}
}
