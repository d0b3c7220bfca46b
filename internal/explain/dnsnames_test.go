package explain

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/journal"
)

// egress is a policy over what every Pod sends, which allows these UDP ports.
func egress(ports ...int) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "locked"},
		Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}}}
	for _, n := range ports {
		p.Spec.Egress = append(p.Spec.Egress,
			networkingv1.NetworkPolicyEgressRule{
				Ports: []networkingv1.NetworkPolicyPort{{Protocol: ptr.To(corev1.ProtocolUDP),
					Port: ptr.To(intstr.FromInt(n))}}})
	}
	return p
}

// Why a name in a container's log does not resolve, by the objects around it.
func TestNamesThatDoNotResolve(t *testing.T) {
	service := func(name, ip string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip}}
	}
	namespaceContext := func(policies ...*networkingv1.NetworkPolicy) *NamespaceContext {
		return &NamespaceContext{Services: []*corev1.Service{service("mysql", "10.96.0.9"), service("peers", "None")},
			Ready: map[string]int{"mysql": 1}, Policies: policies}
	}
	noneButOne := func(p *corev1.Pod) {
		p.Spec.DNSPolicy, p.Spec.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.1"}}
	}
	ownServers := func(p *corev1.Pod) { p.Spec.DNSPolicy = corev1.DNSDefault }
	for _, c := range []struct {
		name, words string
		around      *NamespaceContext
		change      func(*corev1.Pod)
		cause, fix  string // contained in the cause, and in the first fix
	}{
		{"misspelt", "dial tcp: lookup mysq1 on 10.96.0.10:53: no such host", namespaceContext(), nil,
			"there is no Service mysq1 in namespace default. There is a Service mysql: perhaps that was meant.",
			"ask for mysql"},
		{"full name of none", "wget: bad address 'cache.default.svc.cluster.local'", namespaceContext(), nil,
			"there is no Service cache in namespace default.", "create the Service cache"},
		{"headless", "nslookup: can't resolve 'peers': Name does not resolve", namespaceContext(), nil,
			"Service peers is headless, so its name has the addresses of its ready Pods, and none is ready.",
			"gantry why service/peers -n default"},
		{"asks the node's servers", "Could not resolve host: mysql", namespaceContext(), ownServers,
			"the Pod asks the node's own name servers and not the cluster's (dnsPolicy Default, hostNetwork false)",
			"use dnsPolicy ClusterFirst"},
		{"asks servers of its own choice", "Could not resolve host: mysql", namespaceContext(), noneButOne,
			"the Pod asks only 192.0.2.1 and not the cluster's name server (dnsPolicy None)", "dnsPolicy ClusterFirst"},
		{"policy", "lookup mysql on 10.96.0.10:53: read udp 10.72.0.9:4->10.96.0.10:53: i/o timeout",
			namespaceContext(egress(80)), nil,
			"It cannot resolve mysql: NetworkPolicy locked lets the Pod send nothing to port 53",
			`"path":"/spec/egress/-"`},
		{"policy that allows nothing", ";; connection timed out; no servers could be reached",
			namespaceContext(egress()), nil, "It cannot resolve a name: NetworkPolicy locked",
			`"path":"/spec/egress","value":[{"ports"`},
		{"nobody answers", ";; connection timed out; no servers could be reached", namespaceContext(), nil,
			"It cannot resolve a name: no name server answers it.", "see whether the cluster's DNS runs"},
		{"policy that allows names", "getaddrinfo ENOTFOUND mysq1", namespaceContext(egress(80, 53)), nil,
			"there is no Service mysq1", "ask for mysql"},
		{"upstream is not reached", "getaddrinfo EAI_AGAIN api.example.com", namespaceContext(), nil,
			"It gets no answer about api.example.com, a name outside the cluster's", "--dns-upstream"},
		{"upstream says no", "java.net.UnknownHostException: api.exampel.com", namespaceContext(), nil,
			"The name servers say that api.exampel.com does not exist.", "SERVICE.NAMESPACE"},
		{"a short name of nobody", `could not translate host name "warehouse" to address: Name or service not known`,
			namespaceContext(), nil, "no Service of namespace default is called so", ""},
		{"there by now", "lookup mysql: no such host", namespaceContext(), nil,
			"ends again and again: last with exit code 1", ""},
		{"of something else", "address already in use", namespaceContext(egress(80)), nil,
			"ends again and again: last with exit code 1", ""},
	} {
		pod := &corev1.Pod{
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "app", Image: "x", Args: []string{"--db=mysq1:3306"}}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
				Name: "app", RestartCount: 2,
				State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1,
					Reason: "Error"}},
			}}}}
		pod.Name, pod.Namespace = "app", "default"
		if c.change != nil {
			c.change(pod)
		}
		a := crashLoop(In{Pod: pod, Ref: journal.Ref{Kind: "Pod", Namespace: "default", Name: "app"},
			NamespaceContext: c.around, LastLogs: map[string]string{"app": c.words}})
		if a == nil || !strings.Contains(a.Cause, c.cause) {
			t.Errorf("%s: got %+v, want Cause with %v", c.name, a, c.cause)
			continue
		}
		if c.fix != "" && (len(a.Fixes) == 0 || !strings.Contains(a.Fixes[0].Description+strings.Join(a.Fixes[0].Run,
			" "), c.fix)) {
			t.Errorf("%s: fixes %+v", c.name, a.Fixes)
		}
		if quiet := c.cause == "ends again and again: last with exit code 1"; quiet && strings.Contains(a.Cause,
			"resolve") {
			t.Errorf("%s: got cause %s, want none of DNS", c.name, a.Cause)
		}
	}
}
