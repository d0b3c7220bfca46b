package proxy

import (
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// BenchmarkMemory measures the heap bytes of a Service with five endpoints: as a watched object,
// and in the proxy's desired state.
func BenchmarkMemory(b *testing.B) {
	const n = 10_000
	for b.Loop() {
		inUse := func() float64 {
			debug.FreeOSMemory()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return float64(m.HeapInuse)
		}
		small := newTrimmer()
		var s []*v1.Service
		var e []*discoveryv1.EndpointSlice
		began := inUse()
		came := decoded(b, n) // the whole list is decoded before the first object is trimmed
		for _, one := range came {
			o, _ := small.transform(one)
			switch o := o.(type) {
			case *v1.Service:
				s = append(s, o)
			case *discoveryv1.EndpointSlice:
				e = append(e, o)
			}
		}
		clear(came)
		objects := inUse()
		books := []*rules.DesiredState{rules.NewDesiredState(), rules.NewDesiredState()}
		ports := map[string][][]rules.ServicePort{}
		for i := range n {
			var now [][]rules.ServicePort
			for k, f := range []rules.Family{rules.IPv4, rules.IPv6} {
				now = append(now,
					rules.ServicePorts(rules.Input{Service: s[i], Slices: e[i : i+1], Node: rules.Node{Name: "n1"}}, f))
				state := rules.NewState()
				for _, p := range now[k] {
					state.Add(p.State(rules.Settings{Family: f, MasqueradeBit: 14}))
				}
				books[k].Set(rules.Owner{Name: keyOf(s[i])}, state)
			}
			ports[keyOf(s[i])] = now
		}
		kept := inUse()
		b.ReportMetric((objects-began)/n, "object-B/service")
		b.ReportMetric((kept-objects)/n, "kept-B/service")
		runtime.KeepAlive(s)
		runtime.KeepAlive(e)
		runtime.KeepAlive(books)
		runtime.KeepAlive(ports)
		runtime.KeepAlive(small)
	}
}

// decoded returns n Services and their slices as decoded from an API server's response.
func decoded(b *testing.B, n int) []any {
	var out []any
	for i := range n {
		one, slice := sample(i)
		for from, to := range map[interface{ Marshal() ([]byte, error) }]interface{ Unmarshal([]byte) error }{
			one: &v1.Service{}, slice: &discoveryv1.EndpointSlice{}} {
			raw, err := from.Marshal()
			if err == nil {
				err = to.Unmarshal(raw)
			}
			if err != nil {
				b.Fatal(err)
			}
			out = append(out, to)
		}
	}
	return out
}

// sample returns a Service as an API server returns it, with the slice of its controller.
func sample(i int) (*v1.Service, *discoveryv1.EndpointSlice) {
	name := fmt.Sprintf("s%d", i)
	ip := netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}).String()
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
		UID: types.UID(fmt.Sprintf("%036d", i)), ResourceVersion: fmt.Sprint(i), ManagedFields: managed()},
		Spec: v1.ServiceSpec{Type: v1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip},
			IPFamilies: []v1.IPFamily{v1.IPv4Protocol}, SessionAffinity: v1.ServiceAffinityNone,
			IPFamilyPolicy:        new(v1.IPFamilyPolicySingleStack),
			InternalTrafficPolicy: new(v1.ServiceInternalTrafficPolicyCluster),
			Ports:                 []v1.ServicePort{{Name: "http", Protocol: v1.ProtocolTCP, Port: 80}}}}
	e := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-1",
		Labels: map[string]string{discoveryv1.LabelServiceName: name}, UID: types.UID(fmt.Sprintf("%036d", i)),
		ResourceVersion: fmt.Sprint(i), ManagedFields: managed()},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(v1.ProtocolTCP),
			Port: new(int32(8080))}}}
	for k := range 5 {
		e.Endpoints = append(e.Endpoints,
			discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.%d.%d.%d", 100+k, i>>8, i&255)},
				NodeName: new(fmt.Sprintf("node-%d", k)),
				Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true),
					Terminating: new(false)},
				TargetRef: &v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: fmt.Sprintf("%s-%d", name, k),
					UID: types.UID(fmt.Sprintf("%036d", i*5+k))}})
	}
	return s, e
}

// managed returns metadata of every object that nobody here reads.
func managed() []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: &metav1.FieldsV1{Raw: make([]byte, 600)}}}
}
