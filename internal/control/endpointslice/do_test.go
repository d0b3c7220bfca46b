package endpointslice

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/control/loop"
)

func pod(name, ip string, ready bool) *corev1.Pod {
	s := corev1.ConditionFalse
	if ready {
		s = corev1.ConditionTrue
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", ResourceVersion: "1", Labels: map[string]string{"app": "a"}},
		Spec:   corev1.PodSpec{NodeName: "n"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: s}}}}
}

// row: CTL-13
func TestASliceFollowsReadinessAndTheEnd(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "ns", UID: "s"}, Spec: corev1.ServiceSpec{
		ClusterIP: "10.0.0.1", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Selector: map[string]string{"app": "a"},
		Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP}}}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	client := fake.NewClientset(service, node, pod("p", "10.1.0.2", false), pod("loop", "127.0.0.1", true))
	factory := informers.NewSharedInformerFactory(client, 0)
	c := New(loop.Deps{Client: client, Informers: factory, Recorder: record.NewFakeRecorder(100)})
	factory.Start(t.Context().Done())
	go c.Run(t.Context())
	deadline := time.Now().Add(8 * time.Second)
	expect := func(want string) {
		t.Helper()
		got := ""
		for got != want {
			got = ""
			list, err := client.DiscoveryV1().EndpointSlices("ns").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range list.Items {
				for _, e := range s.Endpoints {
					got += fmt.Sprint(e.Addresses[0], " ready ", *e.Conditions.Ready, " serving ", *e.Conditions.Serving, " terminating ", *e.Conditions.Terminating, ";")
				}
			}
			if time.Now().After(deadline) {
				t.Fatalf("endpoints %q, want %q", got, want)
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
	expect("10.1.0.2 ready false serving false terminating false;")
	update := func(p *corev1.Pod, version string) {
		t.Helper()
		p.ResourceVersion = version
		if _, err := client.CoreV1().Pods("ns").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p := pod("p", "10.1.0.2", true)
	update(p.DeepCopy(), "2")
	expect("10.1.0.2 ready true serving true terminating false;")
	p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	update(p.DeepCopy(), "3")
	expect("10.1.0.2 ready false serving true terminating true;")
	p.Status.Phase = corev1.PodSucceeded
	update(p.DeepCopy(), "4")
	expect("")
}
