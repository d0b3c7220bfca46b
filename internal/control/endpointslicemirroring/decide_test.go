package endpointslicemirroring

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestHandWrittenEndpointsAreFollowed(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "ns", UID: "u"}}
	e := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "ns",
		Labels: map[string]string{"x": "y"}}, Subsets: []corev1.EndpointSubset{{
		Addresses:         []corev1.EndpointAddress{{IP: "192.0.2.1"}, {IP: "2001:db8::1"}},
		NotReadyAddresses: []corev1.EndpointAddress{{IP: "192.0.2.2"}},
		Ports:             []corev1.EndpointPort{{Name: "sql", Port: 5432, Protocol: corev1.ProtocolTCP}},
	}}}
	plan := Next(service, e, nil)
	if len(plan.Create) != 2 || plan.Create[0].AddressType != discoveryv1.AddressTypeIPv4 ||
		plan.Create[1].AddressType != discoveryv1.AddressTypeIPv6 {
		t.Fatalf("got %+v, want 2 in Create, AddressType AddressTypeIPv4 and AddressType AddressTypeIPv6", plan)
	}
	v4 := plan.Create[0]
	if len(v4.Endpoints) != 2 || !*v4.Endpoints[0].Conditions.Ready || *v4.Endpoints[1].Conditions.Ready ||
		*v4.Ports[0].Port != 5432 || v4.Labels["x"] != "y" || v4.Labels[discoveryv1.LabelServiceName] != "db" {
		t.Errorf("got %+v, want 2 in Endpoints, Ready true, Ready false, Port 5432, Labels[x] y and Labels db", v4)
	}
	if again := Next(service, e, plan.Create); len(again.Create)+len(again.Update)+len(again.Delete) != 0 {
		t.Errorf("what is right is written again: %+v", again)
	}
	e.Subsets[0].Addresses = e.Subsets[0].Addresses[:1]
	e.Subsets[0].NotReadyAddresses = nil
	if next := Next(service, e, plan.Create); len(next.Update) != 1 || len(next.Update[0].Endpoints) != 1 ||
		len(next.Delete) != 1 || next.Delete[0].AddressType != discoveryv1.AddressTypeIPv6 {
		t.Errorf("got %+v, want 1 in Update, 1 in Endpoints, 1 in Delete and AddressType AddressTypeIPv6", next)
	}
}

func TestSkipMirrorLabelIsObeyed(t *testing.T) {
	e := &corev1.Endpoints{}
	if !ShouldMirror(e) {
		t.Error("plain Endpoints are not mirrored")
	}
	e.Labels = map[string]string{discoveryv1.LabelSkipMirror: "true"}
	if ShouldMirror(e) {
		t.Error("skip-mirror is not heeded")
	}
}
