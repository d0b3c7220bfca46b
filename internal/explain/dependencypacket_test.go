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
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/trace/packet"
)

// A container that fails, or waits, and names a Service whose Pods are ready: what stops the packet
// is told. Names from outside, and addresses that answer, are nobody's fault.
func TestADependencyThatIsNotReached(t *testing.T) {
	for _, c := range []struct {
		name, words  string
		deny, listen bool
		want         string
	}{
		{"a policy shuts it", "http://db:5432/", true, true, "PolicyDenies"},
		{"nothing listens", "http://db:5432/", false, false, "NobodyListens"},
		{"it answers", "http://db:5432/", false, true, ""},
		{"in another namespace", "http://db.shop:5432/", true, true, "PolicyDenies"},
		{"a name from outside", "http://example.com:5432/", true, true, ""},
		{"the Pod itself", "http://localhost:5432/", true, true, ""},
		{"an address", "http://10.72.1.3:5432/", true, true, ""},
	} {
		for _, waits := range []bool{false, true} {
			in := base()
			in.Pod.Status.PodIPs = []corev1.PodIP{{IP: "10.72.1.2"}}
			in.Pod.Status.Phase = corev1.PodRunning
			spec := in.app()
			if waits {
				in.Pod.Spec.InitContainers = []corev1.Container{{Name: "init"}}
				spec = &in.Pod.Spec.InitContainers[0]
				in.Pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init",
					State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{
						StartedAt: at(-30 * time.Second)}}}}
			} else {
				s := in.state(waiting("CrashLoopBackOff", ""))
				s.RestartCount, s.LastTerminationState.Terminated = 3, ended0(1, "Error")
			}
			spec.Command = []string{"wget", c.words}
			in.NamespaceContext = &NamespaceContext{Services: []*corev1.Service{dbService()},
				Ready: map[string]int{"db": 1}}
			w := dbState(in.Pod, c.deny, c.listen)
			in.PacketState = &w
			if asks := PodPackets(in.Pod); (len(asks) == 0) != (strings.Contains(c.words, "localhost") ||
				strings.Contains(c.words, "10.72")) {
				t.Errorf("%s: got requests %v", c.name, asks)
			}
			a := Why(in)
			var got *finding.Finding
			for i := range a.Findings {
				if a.Findings[i].Code == "DependencyFails" {
					got = &a.Findings[i]
				}
			}
			if (got != nil) != (c.want != "") || c.want != "" && !strings.Contains(a.Cause, "("+c.want+")") {
				t.Errorf("%s, waits %t: got %q with %+v, want reason %q", c.name, waits, a.Cause, got, c.want)
			}
			if got != nil && (!strings.HasSuffix(got.Field, ".command[1]") || len(got.Related) != 1 ||
				got.Related[0].Name != "db") {
				t.Errorf("%s: got %+v, want the word of the command line and Service db", c.name, got)
			}
		}
	}
}

func dbService() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: corev1.ServiceSpec{
		ClusterIP: "10.96.0.9", ClusterIPs: []string{"10.96.0.9"}, Selector: map[string]string{"app": "db"},
		Ports: []corev1.ServicePort{{Port: 5432, TargetPort: intstr.FromInt32(5432), Protocol: corev1.ProtocolTCP}}}}
}

// dbState is a Service db with one ready Pod, and the Pod that asks it.
func dbState(asks *corev1.Pod, deny, listen bool) packet.ClusterState {
	db := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0",
		Labels: map[string]string{"app": "db"}},
		Spec: corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{Phase: corev1.PodRunning,
			PodIP: "10.72.1.9", PodIPs: []corev1.PodIP{{IP: "10.72.1.9"}}}}
	w := packet.ClusterState{Pods: []*corev1.Pod{asks, db}, Services: []*corev1.Service{dbService()},
		Nodes:      []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}},
		Namespaces: []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}},
		Slices: []*discoveryv1.EndpointSlice{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-x",
			Labels: map[string]string{discoveryv1.LabelServiceName: "db"}}, AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.72.1.9"}, NodeName: ptr.To("n1"),
				Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
				TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "db-0"}}},
			Ports: []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To(int32(5432)),
				Protocol: ptr.To(corev1.ProtocolTCP)}}}}}
	at := "*:9999"
	if listen {
		at = "*:5432"
	}
	w.Sockets = map[types.NamespacedName][]string{{Namespace: "shop", Name: "db-0"}: {at}}
	if deny {
		w.Policy = packet.NetworkPolicies{}
		w.Policies = []*networkingv1.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shut"},
			Spec: networkingv1.NetworkPolicySpec{
				PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}}}}
	}
	return w
}
