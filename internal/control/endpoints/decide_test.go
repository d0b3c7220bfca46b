package endpoints

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/test/wrappers"
)

func pod(name, ip string, ready bool, change ...func(*corev1.Pod)) *corev1.Pod {
	web := corev1.ContainerPort{Name: "web", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}
	return wrappers.MakePod().Namespace("ns").Name(name).Node("n").RestartPolicy(corev1.RestartPolicyAlways).
		Containers(corev1.Container{Ports: []corev1.ContainerPort{web}}).
		Phase(corev1.PodRunning).PodIP(ip).Ready(ready).Obj(change...)
}

func service(change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "ns",
		Labels: map[string]string{"own": "x"}},
		Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1",
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP,
				TargetPort: intstr.FromString("web")}}}}
	for _, c := range change {
		c(s)
	}
	return s
}

// row: CTL-14
// row: PST-25
// row: PRB-15
func TestReadyAndUnreadyAreApart(t *testing.T) {
	ended := func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodSucceeded
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	ending := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
	unnamed := func(p *corev1.Pod) { p.Spec.Containers[0].Ports = nil }
	e := DesiredEndpoints(service(), []*corev1.Pod{
		pod("b", "10.1.0.3", true), pod("a", "10.1.0.2", true), pod("c", "10.1.0.4", false), pod("d", "", false),
		pod("e", "10.1.0.5", true, ended), pod("f", "10.1.0.6", true, ending), pod("g", "10.1.0.7", true, unnamed),
		pod("h", "127.0.0.1", true),
	}, nil)
	if len(e.Subsets) != 1 || e.Labels["own"] != "x" || e.Labels[managedBy] != manager {
		t.Fatalf("got %+v, want 1 in Subsets, Labels[own] x and Labels[managedBy] %v", e, manager)
	}
	s := e.Subsets[0]
	if len(s.Addresses) != 2 || s.Addresses[0].IP != "10.1.0.2" || s.Addresses[1].TargetRef.Name != "b" ||
		len(s.NotReadyAddresses) != 1 || s.NotReadyAddresses[0].IP != "10.1.0.4" {
		t.Errorf("got %+v, want 2 in Addresses, IP 10.1.0.2, Name b, 1 in NotReadyAddresses and IP 10.1.0.4", s)
	}
	if len(s.Ports) != 1 || s.Ports[0].Port != 8080 || s.Ports[0].Name != "http" {
		t.Errorf("ports: got %+v, want one of them and [0].Port 8080 and [0].Name http", s.Ports)
	}
}

// row: CTL-14
func TestUnreadyMayBePublishedAndHeadlessIsSaid(t *testing.T) {
	e := DesiredEndpoints(service(func(s *corev1.Service) {
		s.Spec.PublishNotReadyAddresses, s.Spec.ClusterIP, s.Spec.Ports = true, corev1.ClusterIPNone, nil
	}), []*corev1.Pod{pod("a", "10.1.0.2", false)}, nil)
	if _, headless := e.Labels[corev1.IsHeadlessService]; !headless || len(e.Subsets) != 1 ||
		len(e.Subsets[0].Addresses) != 1 {
		t.Errorf("got %+v, want headless true, 1 in Subsets and 1 in Addresses", e)
	}
}
