package podactions

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// The request that makes a Pod's sandbox names the cluster's DNS servers, each, in their order, and
// the Pod's own domains.
//
// row: CRI-11
func TestSandboxRequestHasTheClustersDNS(t *testing.T) {
	call := testOperation(t, &fakePorts{}, testPod(v1.Container{Name: "c"}))
	call.pod.Namespace, call.pod.Spec.DNSPolicy = "prod", v1.DNSClusterFirst
	call.executor.d.Node.ClusterDNS = []string{"10.96.0.10", "fd00::a"}
	cfg, err := call.sandboxConfig(t.Context(), 0, func(_, message string) { t.Error(message) })
	if err != nil {
		t.Fatal(err)
	}
	want := &runtimeapi.DNSConfig{Servers: []string{"10.96.0.10", "fd00::a"},
		Searches: []string{"prod.svc.cluster.local", "svc.cluster.local", "cluster.local"},
		Options:  []string{"ndots:5"}}
	if cfg.DnsConfig.String() != want.String() {
		t.Errorf("got %v, want %v", cfg.DnsConfig, want)
	}
}

// https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#dns-search-domain-list-limits
//
// row: CRI-11
func TestSearchPathsThatDoNotFitAreLeftOut(t *testing.T) {
	long, tooLong := strings.Repeat("a", 200), strings.Repeat("b", 254)
	paths := func(n int, s string) []string {
		var out []string
		for i := range n {
			out = append(out, string(rune('a'+i%26))+s)
		}
		return out
	}
	for _, c := range []struct {
		name string
		in   []string
		want int
	}{
		{"none", nil, 0},
		{"as many as may be", paths(32, ""), 32},
		{"one more", paths(33, ""), 32},
		{"a path longer than a name", []string{"ok", tooLong, "too"}, 2},
		{"a line of 2048 characters at most", paths(12, long), 10}, // 10*201+9 = 2019; eleven are 2221
	} {
		got := fitSearchPaths(c.in)
		if len(got) != c.want || len(strings.Join(got, " ")) > maxSearchLine {
			t.Errorf("%s: %d paths are left of %d, want %d", c.name, len(got), len(c.in), c.want)
		}
	}
	call := testOperation(t, &fakePorts{}, testPod(v1.Container{Name: "c"}))
	call.pod.Spec.DNSPolicy, call.pod.Spec.DNSConfig = v1.DNSNone, &v1.PodDNSConfig{Nameservers: []string{"192.0.2.1"},
		Searches: []string{"ok", tooLong}}
	events := ""
	if _, err := call.dns(func(reason, message string) { events = reason + ": " + message }); err != nil {
		t.Fatal(err)
	}
	if want := "DNSConfigForming: Search Line limits were exceeded, some search paths have been omitted, the applied " +
		"search line is: ok"; events != want {
		t.Errorf("got %q, want %q", events, want)
	}
}

// A node without a resolver file has lookups end at the Pod's loopback, where the runtime would
// else put a file of its own.
//
// row: CRI-11
func TestDefaultPolicyWithoutAResolverFile(t *testing.T) {
	call := testOperation(t, &fakePorts{}, testPod(v1.Container{Name: "c"}))
	call.pod.Spec.DNSPolicy = v1.DNSDefault
	got, err := call.dns(func(_, message string) { t.Error(message) })
	if want := (&runtimeapi.DNSConfig{Servers: []string{"127.0.0.1"}, Searches: []string{"."}}).String(); err != nil ||
		got.String() != want {
		t.Errorf("%v %v, want %s", got, err, want)
	}
}

func testService(ns, name, ip string, p ...v1.ServicePort) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: v1.ServiceSpec{ClusterIP: ip, Ports: p}}
}

// https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
// row: NET-11
func TestServiceVariables(t *testing.T) {
	api := testService("default", "kubernetes", "10.96.0.1", v1.ServicePort{Name: "https", Port: 443, Protocol: "TCP"})
	refusal := false
	for _, c := range []struct {
		name     string
		services []*v1.Service
		links    *bool
		want     map[string]string // of those about other Services than kubernetes
		api      string            // KUBERNETES_SERVICE_HOST
	}{
		{"ports with and without names, UDP",
			[]*v1.Service{testService("ns", "my-db", "10.96.0.9",
				v1.ServicePort{Name: "sql-x", Port: 3306, Protocol: "TCP"},
				v1.ServicePort{Name: "", Port: 53, Protocol: "UDP"}), api}, nil, map[string]string{
				"MY_DB_SERVICE_HOST": "10.96.0.9", "MY_DB_SERVICE_PORT": "3306", "MY_DB_SERVICE_PORT_SQL_X": "3306",
				"MY_DB_PORT":          "tcp://10.96.0.9:3306",
				"MY_DB_PORT_3306_TCP": "tcp://10.96.0.9:3306", "MY_DB_PORT_3306_TCP_PROTO": "tcp",
				"MY_DB_PORT_3306_TCP_PORT": "3306", "MY_DB_PORT_3306_TCP_ADDR": "10.96.0.9",
				"MY_DB_PORT_53_UDP": "udp://10.96.0.9:53", "MY_DB_PORT_53_UDP_PROTO": "udp",
				"MY_DB_PORT_53_UDP_PORT": "53", "MY_DB_PORT_53_UDP_ADDR": "10.96.0.9",
			}, "10.96.0.1"},
		{"an IPv6 address",
			[]*v1.Service{testService("ns", "six", "fd00::9", v1.ServicePort{Port: 80, Protocol: "TCP"})}, nil,
			map[string]string{
				"SIX_SERVICE_HOST": "fd00::9", "SIX_SERVICE_PORT": "80", "SIX_PORT": "tcp://[fd00::9]:80",
				"SIX_PORT_80_TCP": "tcp://[fd00::9]:80", "SIX_PORT_80_TCP_PROTO": "tcp", "SIX_PORT_80_TCP_PORT": "80",
				"SIX_PORT_80_TCP_ADDR": "fd00::9",
			}, ""},
		{"headless, external and other namespaces' are not told",
			[]*v1.Service{api, testService("ns", "h", "None", v1.ServicePort{Port: 1}), testService("ns", "e", ""),
				testService("default", "other", "10.96.0.8", v1.ServicePort{Port: 1})}, nil, map[string]string{},
			"10.96.0.1"},
		{"enableServiceLinks: false leaves the API server",
			[]*v1.Service{testService("ns", "web", "10.96.0.9", v1.ServicePort{Port: 80}), api}, &refusal,
			map[string]string{}, "10.96.0.1"},
		{"a Service kubernetes of the Pod's namespace wins",
			[]*v1.Service{testService("ns", "kubernetes", "10.96.0.7", v1.ServicePort{Port: 80, Protocol: "TCP"}), api},
			nil, map[string]string{}, "10.96.0.7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := testOperation(t, &fakePorts{services: c.services}, testPod(v1.Container{Name: "c"}))
			call.pod.Spec.EnableServiceLinks = c.links
			m, _ := podplan.MemberOf(call.pod, "c")
			env, err := call.env(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			got, host := map[string]string{}, ""
			for _, kv := range env.list() {
				if !strings.HasPrefix(kv.Key, "KUBERNETES_") {
					got[kv.Key] = string(kv.Value)
				} else if kv.Key == "KUBERNETES_SERVICE_HOST" {
					host = string(kv.Value)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" || host != c.api {
				t.Errorf("KUBERNETES_SERVICE_HOST=%q, want %q\n%s", host, c.api, diff)
			}
			if _, both := env.lookup()("KUBERNETES_SERVICE_PORT_HTTPS"); both && host != "10.96.0.1" {
				t.Error("variables of two Services named kubernetes are mixed")
			}
		})
	}
}
