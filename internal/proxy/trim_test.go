package proxy

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// A trimmed Service and slice give the same rules as whole ones, the trigger time is kept, and the
// originals are not modified.
func TestTrimmedObjectsGiveTheSameRules(t *testing.T) {
	when := "2026-11-21T20:00:00.5Z"
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web",
		Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
		CreationTimestamp: metav1.Unix(5, 0)},
		Spec: v1.ServiceSpec{ClusterIP: "10.96.0.10", Selector: map[string]string{"app": "web"},
			SessionAffinity: v1.ServiceAffinityClientIP, Ports: []v1.ServicePort{{Name: "http", Port: 80}}}}
	e := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1",
		Labels:      map[string]string{discoveryv1.LabelServiceName: "web", "x": "y"},
		Annotations: map[string]string{lastChangeTriggerTime: when, "other": "1"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(v1.ProtocolTCP),
			Port: new(int32(8080)), AppProtocol: new("h2c")}}}
	for _, ip := range []string{"10.1.0.1", "10.1.0.2", "10.1.0.3"} {
		e.Endpoints = append(e.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}, NodeName: new("n1"),
			Zone: new("z"), Hostname: new("h"),
			Conditions: discoveryv1.EndpointConditions{Ready: new(ip != "10.1.0.3"), Serving: new(true),
				Terminating: new(false)},
			Hints:     &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: strings.Clone("z")}}},
			TargetRef: &v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p" + ip, UID: types.UID(ip)}})
	}
	b := newTrimmer()
	small := func(o any) any {
		out, err := b.transform(o)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	s2, e2 := small(s).(*v1.Service), small(e).(*discoveryv1.EndpointSlice)
	state := func(s *v1.Service, e *discoveryv1.EndpointSlice) rules.State {
		p := rules.ServicePorts(rules.Input{Service: s, Slices: []*discoveryv1.EndpointSlice{e},
			Node: rules.Node{Name: "n1", Zone: "z"}}, rules.IPv4)
		if len(p) != 1 || len(p[0].ClusterEndpoints) != 2 || p[0].ClusterEndpoints[0].UID != "10.1.0.1" ||
			p[0].ClusterEndpoints[0].Pod != "p10.1.0.1" {
			t.Fatalf("ports: %+v", p)
		}
		return p[0].State(rules.Settings{Family: rules.IPv4, MasqueradeBit: 14})
	}
	if d := rules.Delta(state(s, e), state(s2, e2)); len(d) > 0 {
		t.Errorf("the rules differ by %v", d)
	}
	if at := triggerTimeOf(e2); !at.Equal(time.Date(2026, 11, 21, 20, 0, 0, 5e8, time.UTC)) ||
		serviceOf(e2) != "default/web" || keyOf(s2) != "default/web" || !s2.CreationTimestamp.Equal(
		&s.CreationTimestamp) {
		t.Errorf("lost: %v %q %q", at, serviceOf(e2), keyOf(s2))
	}
	one, two := e2.Endpoints[0], e2.Endpoints[1]
	if one.NodeName != two.NodeName || one.Conditions.Serving != two.Conditions.Serving {
		t.Errorf("equal values have memory of their own: got node names at %p and %p, serving at %p and %p",
			one.NodeName, two.NodeName, one.Conditions.Serving, two.Conditions.Serving)
	}
	zone := func(i int) *byte { return unsafe.StringData(e2.Endpoints[i].Hints.ForZones[0].Name) }
	s.Spec.SessionAffinity = v1.ServiceAffinity(strings.Clone(string(s.Spec.SessionAffinity)))
	affinity := func(s *v1.Service) *byte { return unsafe.StringData(string(s.Spec.SessionAffinity)) }
	if again := small(s).(*v1.Service); zone(0) != zone(1) || affinity(again) != affinity(s2) {
		t.Errorf("equal texts have memory of their own: got zones at %p and %p, affinities at %p and %p", zone(0),
			zone(1), affinity(again), affinity(s2))
	}
	if len(s.Annotations)+len(e.Labels)+len(s.Spec.Selector) != 4 || e.Endpoints[0].Zone == nil ||
		e.Ports[0].AppProtocol == nil {
		t.Errorf("the objects that came were changed: got annotations %v, labels %v, selector %v, zone %v, protocol %v",
			s.Annotations, e.Labels, s.Spec.Selector, e.Endpoints[0].Zone, e.Ports[0].AppProtocol)
	}
}
