package proxy

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

func TestHealthCheckNodePorts(t *testing.T) {
	var l net.Listener
	h := newProxyHealthServer(newMetrics(), time.Hour)
	h.updated(time.Now())
	c := newServiceHealthServer(func(uint16) (_ net.Listener, err error) {
		l, err = net.Listen("tcp", "127.0.0.1:0")
		return l, err
	}, h)
	ask := func() (int, string, string) {
		t.Helper()
		r, err := http.Get("http://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, r.Header.Get("X-Load-Balancing-Endpoint-Weight"), string(body)
	}
	c.syncServices(t.Context(), map[string]healthCheckTarget{"default/web": {31000, 2}})
	if code, weight, body := ask(); code != 200 || weight != "2" || !strings.Contains(body, `"localEndpoints":2`) ||
		!strings.Contains(body, `"name":"web","namespace":"default"`) {
		t.Errorf("two endpoints here: %d, weight %s, %s", code, weight, body)
	}
	h.syncNode(&v1.Node{Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: toBeDeletedTaint}}}})
	if code, _, body := ask(); code != 200 || !strings.Contains(body, `"serviceProxyHealthy":true`) {
		t.Errorf("a node that is about to be taken away still has its endpoints; /healthz alone tells of it: %d, %s",
			code, body)
	}
	c.syncServices(t.Context(), map[string]healthCheckTarget{"default/web": {31000, 0}})
	if code, _, body := ask(); code != 503 {
		t.Errorf("none here: %d, %s, want 503", code, body)
	}
	c.close()
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("the port is open after the Service went")
	}
}

// TestHealthCheckNodePortsCountReadyEndpoints: terminating and unready endpoints do not count,
// although terminating ones still get the node's traffic.
func TestHealthCheckNodePortsCountReadyEndpoints(t *testing.T) {
	endpoint := func(ip, node string, ready, serving, ending bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{
			Addresses: []string{ip}, NodeName: &node, TargetRef: &v1.ObjectReference{Kind: "Pod", Name: ip,
				UID: types.UID(ip)},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &ending},
		}
	}
	ready, unready := endpoint("10.0.0.1", "n", true, true, false), endpoint("10.0.0.2", "n", false, false, false)
	ending, other := endpoint("10.0.0.3", "n", false, true, true), endpoint("10.0.0.4", "m", true, true, false)
	for name, c := range map[string]struct {
		all         []discoveryv1.Endpoint
		count, gets int
	}{
		"ready": {[]discoveryv1.Endpoint{ready, other}, 1, 1}, "unready": {[]discoveryv1.Endpoint{unready}, 0, 0},
		"ending alone":          {[]discoveryv1.Endpoint{ending}, 0, 1},
		"ending, one elsewhere": {[]discoveryv1.Endpoint{ending, other}, 0, 1},
		"ready and ending":      {[]discoveryv1.Endpoint{ready, ending}, 1, 1},
		"elsewhere":             {[]discoveryv1.Endpoint{other}, 0, 0},
	} {
		s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "web"}, Spec: v1.ServiceSpec{
			Type: v1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.9", ClusterIPs: []string{"10.96.0.9"},
			IPFamilies:            []v1.IPFamily{v1.IPv4Protocol},
			ExternalTrafficPolicy: v1.ServiceExternalTrafficPolicyLocal, HealthCheckNodePort: 31000,
			Ports: []v1.ServicePort{{Name: "a", Port: 80, NodePort: 30080, Protocol: v1.ProtocolTCP},
				{Name: "b", Port: 81, NodePort: 30081, Protocol: v1.ProtocolTCP}},
		}}
		slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: c.all,
			Ports: []discoveryv1.EndpointPort{
				{Name: new("a"), Port: new(int32(80))}, {Name: new("b"), Port: new(int32(81))},
			}}
		ports := rules.ServicePorts(rules.Input{Service: s, Slices: []*discoveryv1.EndpointSlice{slice},
			Node: rules.Node{Name: "n"}}, rules.IPv4)
		p := &Proxier{ports: map[string][][]rules.ServicePort{"d/web": {ports}},
			healthChecks: map[string]healthCheckTarget{}}
		p.updateHealthCheck("d/web", s)
		if got := p.healthChecks["d/web"]; got != (healthCheckTarget{31000, c.count}) ||
			len(ports[0].LocalEndpoints) != c.gets {
			t.Errorf("%s: %+v is reported to load balancers, %d get traffic; want %d and %d", name, got,
				len(ports[0].LocalEndpoints), c.count, c.gets)
		}
	}
}
