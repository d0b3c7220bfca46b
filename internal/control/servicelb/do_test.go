package servicelb

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// A load balancer gets the node's address, a second one with its port waits until the first is none
// any more, one of another class is left alone.
func TestAddressesComeAndGo(t *testing.T) {
	other := balancer("other", 3*time.Hour, func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("example.com/x") })
	client := fake.NewClientset(machine("n1", true, internal("192.0.2.1")), balancer("first", time.Hour),
		balancer("second", 0), other)
	factory := informers.NewSharedInformerFactory(client, 0)
	events := record.NewFakeRecorder(100)
	c := New(controllerruntime.ControllerContext{Client: client, Informers: factory, Recorder: events})
	factory.Start(t.Context().Done())
	go c.Run(t.Context())
	services := client.CoreV1().Services("shop")
	expect := func(name, want string) *corev1.Service {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
			s, err := services.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, in := range s.Status.LoadBalancer.Ingress {
				got += in.IP
			}
			if got == want {
				return s
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s has %q, want %q", name, got, want)
			}
		}
	}
	message := func(want string) {
		t.Helper()
		for {
			select {
			case e := <-events.Events:
				if strings.Contains(e, want) {
					return
				}
			case <-time.After(time.Minute):
				t.Fatalf("never said: %s", want)
			}
		}
	}
	first := expect("first", "192.0.2.1")
	message("Normal EnsuredLoadBalancer Ensured load balancer")
	expect("second", "")
	first.Spec.Type = corev1.ServiceTypeClusterIP
	if _, err := services.Update(t.Context(), first, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("first", "")
	message("Normal DeletedLoadBalancer Deleted load balancer")
	expect("second", "192.0.2.1")
	expect("other", "")
}
