package pods_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// ask sends a request to the API server and does not follow redirects.
func ask(t *testing.T, method, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	c := *testServer.config
	c.NextProtos = []string{"http/1.1"} // upgrades need it
	transport, err := rest.TransportFor(&c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, testServer.config.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	got, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if got.StatusCode == http.StatusSwitchingProtocols {
		return got, "" // what follows has no end
	}
	body, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got, string(body)
}

// hostAddress is an address of this machine that may be proxied to.
func hostAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback ones")
	return ""
}

// backend answers with the request it got, and upgrades when asked to.
func backend(t *testing.T, host string, secure bool) (port int32) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("X-Path", r.URL.Path)
			w.WriteHeader(http.StatusSwitchingProtocols)
			return
		}
		w.Header().Set("X-Asked", r.Method+" "+r.URL.RequestURI())
		fmt.Fprintf(w, "%s %s", r.Method, r.URL.RequestURI())
	}))
	s.Listener = l
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return int32(l.Addr().(*net.TCPAddr).Port) //nolint:gosec // a port number
}

// targets makes a Pod with a status, a Service with two ports and its EndpointSlice in a namespace,
// and a node of its own.
func targets(t *testing.T, ns, host string, plain, secure int32) {
	t.Helper()
	c, ctx := testServer.client, t.Context()
	p := newPod(t, ns, func(p *v1.Pod) {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: plain}}
	})
	p.Status.PodIP, p.Status.PodIPs, p.Status.Phase = host, []v1.PodIP{{IP: host}}, v1.PodRunning
	if _, err := c.CoreV1().Pods(ns).UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"},
		Spec: v1.ServiceSpec{Ports: []v1.ServicePort{{Name: "plain", Port: 80}, {Name: "secure", Port: 443}}}}
	if _, err := c.CoreV1().Services(ns).Create(ctx, s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	slice := func(name string, ref *v1.ObjectReference) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports: []discoveryv1.EndpointPort{{Name: new("plain"), Port: &plain},
				{Name: new("secure"), Port: &secure}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{host}, TargetRef: ref}},
		}
	}
	for _, e := range []*discoveryv1.EndpointSlice{
		slice("s", &v1.ObjectReference{Kind: "Pod", Namespace: ns, Name: "p"}), slice("alien", nil)} {
		if _, err := c.DiscoveryV1().EndpointSlices(ns).Create(ctx, e, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	n, err := c.CoreV1().Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: host}}
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = secure
	if _, err := c.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestProxyOfPodsServicesAndNodes: the proxies of Pods, Services and nodes take every verb, pass
// query strings and upgrades on, send who asks without a slash at the end (GET, HEAD) to the
// address with one, and do not check certificates of https targets.
//
// row: API-46
func TestProxyOfPodsServicesAndNodes(t *testing.T) {
	_, ns := startServer(t)
	host := hostAddress(t)
	plain, secure := backend(t, host, false), backend(t, host, true)
	targets(t, ns, host, plain, secure)
	base := "/api/v1/namespaces/" + ns
	for name, at := range map[string]string{
		"Pod": base + "/pods/p", "Pod with port": fmt.Sprintf("%s/pods/p:%d", base, plain),
		"Pod with scheme and port": fmt.Sprintf("%s/pods/http:p:%d", base, plain),
		"Pod over TLS":             fmt.Sprintf("%s/pods/https:p:%d", base, secure),
		"Service by number":        base + "/services/s:80", "Service by name": base + "/services/http:s:plain",
		"Service over TLS by name":     base + "/services/https:s:secure",
		"Service over TLS by number":   base + "/services/https:s:443",
		"node":                         "/api/v1/nodes/" + ns,
		"node with the kubelet's port": fmt.Sprintf("/api/v1/nodes/%s:%d", ns, secure),
		"node with another port":       fmt.Sprintf("/api/v1/nodes/%s:%d", ns, plain),
		"node with scheme and port":    fmt.Sprintf("/api/v1/nodes/http:%s:%d", ns, plain),
	} {
		t.Run(name, func(t *testing.T) {
			at += "/proxy"
			for _, method := range []string{"GET", "HEAD"} {
				for query, want := range map[string]string{"": at + "/", "?a=b&c=%20": at + "/?a=b&c=%20"} {
					got, _ := ask(t, method, at+query)
					if got.StatusCode != http.StatusMovedPermanently || got.Header.Get("Location") != want {
						t.Errorf("%s %s: %d to %q, want 301 to %q", method, at+query, got.StatusCode,
							got.Header.Get("Location"), want)
					}
				}
			}
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
				for path, want := range map[string]string{"/": "/", "/x/y?a=b&a=c": "/x/y?a=b&a=c", "/x/": "/x/"} {
					got, body := ask(t, method, at+path)
					if got.StatusCode != http.StatusOK || got.Header.Get("X-Asked") != method+" "+want {
						t.Errorf("%s %s: %d, the target was asked %q\n%s", method, at+path, got.StatusCode,
							got.Header.Get("X-Asked"), body)
					}
				}
				if method == "GET" || method == "HEAD" {
					continue
				}
				if got, _ := ask(t, method, at); got.StatusCode != http.StatusOK ||
					got.Header.Get("X-Asked") != method+" /" {
					t.Errorf("%s without a slash: %d, the target was asked %q, want %v, %v", method, got.StatusCode,
						got.Header.Get("X-Asked"), http.StatusOK, method+" /")
				}
			}
			if got, _ := ask(t, "GET", at+"/up", "Connection", "Upgrade", "Upgrade",
				"tea"); got.StatusCode != http.StatusSwitchingProtocols || got.Header.Get("X-Path") != "/up" {
				t.Errorf("upgrade: %d, path %q, want %v, /up", got.StatusCode, got.Header.Get("X-Path"),
					http.StatusSwitchingProtocols)
			}
		})
	}
}

// TestProxyRefuses: a port that a Service has not, endpoints that are no Pods of the namespace, and
// nodes without a global address are not proxied to.
func TestProxyRefuses(t *testing.T) {
	_, ns := startServer(t)
	host := hostAddress(t)
	plain := backend(t, host, false)
	targets(t, ns, host, plain, plain)
	n, err := testServer.client.CoreV1().Nodes().Create(t.Context(),
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: ns + "-lo"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "169.254.1.1"}}
	if _, err := testServer.client.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	base := "/api/v1/namespaces/" + ns
	for path, want := range map[string]string{
		base + "/services/s:81/proxy/":                            `503 no service port 81 found for service \"s\"`,
		base + "/services/s/proxy/":                               `503 no endpoints available for service \"s\"`,
		base + "/services/alien:plain/proxy/":                     `503 no endpoints available for service \"alien\"`,
		base + "/services/nobody/proxy/":                          `503 no endpoints available for service \"nobody\"`,
		base + "/services/nobody:80/proxy/":                       `404 services \"nobody\" not found`,
		base + "/services/a:b:c:d/proxy/":                         `400 invalid service request \"a:b:c:d\"`,
		base + "/pods/a:b:c:d/proxy/":                             `400 invalid pod request \"a:b:c:d\"`,
		"/api/v1/nodes/a:b:c:d/proxy/":                            `400 invalid node request \"a:b:c:d\"`,
		"/api/v1/nodes/" + ns + "-lo/proxy/":                      "400 address not allowed",
		fmt.Sprintf("/api/v1/nodes/%s-lo:%d/proxy/", ns, plain):   "400 address not allowed",
		fmt.Sprintf("/api/v1/nodes/%s-none:%d/proxy/", ns, plain): "404 nodes",
	} {
		got, body := ask(t, "GET", path)
		if code, text, _ := strings.Cut(want, " "); fmt.Sprint(got.StatusCode) != code || !strings.Contains(body,
			text) {
			t.Errorf("%s: %d %s, want %s", path, got.StatusCode, body, want)
		}
	}
}
