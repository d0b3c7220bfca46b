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

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/wrappers"
)

func pod(name, ip string, ready bool) *corev1.Pod {
	return wrappers.MakePod().Namespace("ns").Name(name).ResourceVersion("1").Label("app", "a").Node("n").
		Phase(corev1.PodRunning).PodIP(ip).Ready(ready).Obj()
}

// A change of readiness is in the slice within a second.
//
// row: CTL-13
// row: PRB-15
// row: PRB-31
// row: TRM-14
func TestASliceFollowsReadinessAndTheEnd(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "ns", UID: "s"},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.0.0.1", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Selector: map[string]string{"app": "a"},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080),
				Protocol: corev1.ProtocolTCP}}}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	client := fake.NewClientset(service, node, pod("p", "10.1.0.2", false), pod("loop", "127.0.0.1", true))
	factory := informers.NewSharedInformerFactory(client, 0)
	c := New(controllerruntime.ControllerContext{Client: client, Informers: factory,
		Recorder: record.NewFakeRecorder(100)})
	factory.Start(t.Context().Done())
	go c.Run(t.Context())
	until := func(want string) {
		t.Helper()
		deadline, got := time.Now().Add(expect.Patience(time.Minute)), ""
		for got != want {
			got = ""
			list, err := client.DiscoveryV1().EndpointSlices("ns").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range list.Items {
				for _, e := range s.Endpoints {
					got += fmt.Sprint(e.Addresses[0], " ready ", *e.Conditions.Ready, " serving ",
						*e.Conditions.Serving, " terminating ", *e.Conditions.Terminating, ";")
				}
			}
			if time.Now().After(deadline) {
				t.Fatalf("endpoints %q, want %q", got, want)
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
	until("10.1.0.2 ready false serving false terminating false;")
	update := func(p *corev1.Pod, version string) {
		t.Helper()
		p.ResourceVersion = version
		if _, err := client.CoreV1().Pods("ns").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p := pod("p", "10.1.0.2", true)
	update(p.DeepCopy(), "2")
	until("10.1.0.2 ready true serving true terminating false;")
	expect.Within(t, time.Second, "the way from the Pod's condition to its slice", func() {
		update(pod("p", "10.1.0.2", false), "2a")
		until("10.1.0.2 ready false serving false terminating false;")
		update(p.DeepCopy(), "2b")
		until("10.1.0.2 ready true serving true terminating false;")
	})
	p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	update(p.DeepCopy(), "3")
	until("10.1.0.2 ready false serving true terminating true;")
	p.Status.Phase = corev1.PodSucceeded
	update(p.DeepCopy(), "4")
	until("")
}

// Each row is a phase of a Pod's life and what the slice says of it then.
// row: CTL-13
// row: PST-25
// row: ISE-07
// row: TRM-14
// row: TRM-15
func TestEveryPhaseOfAPod(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	initPort := func(policy *corev1.ContainerRestartPolicy) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "first", RestartPolicy: policy,
				Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}}}
		}
	}
	is := func(phase corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = phase } }
	ending := func(p *corev1.Pod) {
		p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Now()}, []string{"x/y"}
	}
	publish := func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }
	named := func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("web") }
	for i, c := range []struct {
		name    string
		service func(*corev1.Service)
		ip      string
		ready   bool
		pod     []func(*corev1.Pod)
		want    string // ready serving terminating ports
	}{
		{"no address yet", nil, "", false, []func(*corev1.Pod){is(corev1.PodPending)}, ""},
		{"init containers run", nil, "10.1.0.2", false, []func(*corev1.Pod){is(corev1.PodPending)},
			"false false false 1"},
		{"running, not ready", nil, "10.1.0.2", false, nil, "false false false 1"},
		{"ready", nil, "10.1.0.2", true, nil, "true true false 1"},
		{"ending, its probe still good", nil, "10.1.0.2", true, []func(*corev1.Pod){ending}, "false true true 1"},
		{"ending, no longer ready", nil, "10.1.0.2", false, []func(*corev1.Pod){ending}, "false false true 1"},
		{"succeeded", nil, "10.1.0.2", false, []func(*corev1.Pod){is(corev1.PodSucceeded)}, ""},
		{"failed while it ends", nil, "10.1.0.2", false, []func(*corev1.Pod){is(corev1.PodFailed), ending}, ""},
		{"published though not ready", publish, "10.1.0.2", false, nil, "true false false 1"},
		{"published though ending", publish, "10.1.0.2", true, []func(*corev1.Pod){ending}, "true true true 1"},
		{"port of an init container", named, "10.1.0.2", true, []func(*corev1.Pod){initPort(nil)}, "true true false 0"},
		{"port of a sidecar", named, "10.1.0.2", true, []func(*corev1.Pod){initPort(&always)}, "true true false 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ns := fmt.Sprint("n", i)
			s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: ns, UID: "s"},
				Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
					Selector: map[string]string{"app": "a"},
					Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080),
						Protocol: corev1.ProtocolTCP}}}}
			if c.service != nil {
				c.service(s)
			}
			p := pod("p", c.ip, c.ready)
			p.Namespace = ns
			if c.ip == "" {
				p.Status.PodIPs = nil
			}
			for _, f := range c.pod {
				f(p)
			}
			client := fake.NewClientset(s, p, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
			factory := informers.NewSharedInformerFactory(client, 0)
			run := New(controllerruntime.ControllerContext{Client: client, Informers: factory,
				Recorder: record.NewFakeRecorder(100)})
			factory.Start(t.Context().Done())
			go run.Run(t.Context())
			// The controller writes a slice in any case, an empty one where there is no endpoint.
			for deadline := time.Now().Add(expect.Patience(time.Minute)); ; time.Sleep(2 * time.Millisecond) {
				list, err := client.DiscoveryV1().EndpointSlices(ns).List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if len(list.Items) == 0 {
					if time.Now().After(deadline) {
						t.Fatal("no slice was written")
					}
					continue
				}
				got := ""
				for _, slice := range list.Items {
					for _, e := range slice.Endpoints {
						got += fmt.Sprint(*e.Conditions.Ready, " ", *e.Conditions.Serving, " ",
							*e.Conditions.Terminating, " ", len(slice.Ports))
					}
				}
				if got != c.want {
					t.Errorf("the slice says %q, want %q", got, c.want)
				}
				return
			}
		})
	}
}
