package endpoints

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// lines is an object's subsets: addresses, those that are not ready after a bar, and ports.
func lines(e *corev1.Endpoints) string {
	var out []string
	for _, s := range e.Subsets {
		line := ""
		for _, a := range s.Addresses {
			line += a.IP + " "
		}
		line += "|"
		for _, a := range s.NotReadyAddresses {
			line += " " + a.IP
		}
		for _, p := range s.Ports {
			line += fmt.Sprintf(" %s/%s/%d", p.Name, p.Protocol, p.Port)
		}
		out = append(out, line)
	}
	return strings.Join(out, "; ")
}

// row: CTL-14
func TestSubsets(t *testing.T) {
	two := func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "other", Port: 81, Protocol: corev1.ProtocolUDP,
			TargetPort: intstr.FromInt32(9090)})
	}
	noPorts := func(s *corev1.Service) { s.Spec.Ports = nil }
	v6 := func(s *corev1.Service) {
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
	}
	v4 := func(s *corev1.Service) {
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	}
	dual := func(p *corev1.Pod) { p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: "fd00::2"}) }
	serves := func(number int32) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].ContainerPort = number }
	}
	linkLocal := func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "169.254.0.1"}} }
	for _, c := range []struct {
		name    string
		service *corev1.Service
		pods    []*corev1.Pod
		want    string
	}{
		{"addresses by number, not by the Pods' names", service(), []*corev1.Pod{pod("a", "10.1.0.9", true),
			pod("b", "10.1.0.2", true), pod("c", "10.1.0.8", false), pod("d", "10.1.0.1", false)},
			"10.1.0.2 10.1.0.9 | 10.1.0.1 10.1.0.8 http/TCP/8080"},
		{"one subset for each set of ports", service(), []*corev1.Pod{pod("a", "10.1.0.2", true, serves(80)),
			pod("b", "10.1.0.3", true), pod("c", "10.1.0.4", true, serves(80))},
			"10.1.0.2 10.1.0.4 | http/TCP/80; 10.1.0.3 | http/TCP/8080"},
		{"a port that the Pod does not name is left out", service(two), []*corev1.Pod{pod("a", "10.1.0.2", true,
			func(p *corev1.Pod) { p.Spec.Containers[0].Ports = nil })}, "10.1.0.2 | other/UDP/9090"},
		{"two ports", service(two), []*corev1.Pod{pod("a", "10.1.0.2", true)},
			"10.1.0.2 | http/TCP/8080 other/UDP/9090"},
		{"no ports and not headless", service(noPorts), []*corev1.Pod{pod("a", "10.1.0.2", true)}, ""},
		{"the first family: v6", service(v6), []*corev1.Pod{pod("a", "10.1.0.2", true, dual),
			pod("b", "10.1.0.3", true)}, "fd00::2 | http/TCP/8080"},
		{"the first family: v4", service(v4), []*corev1.Pod{pod("a", "10.1.0.2", true, dual)},
			"10.1.0.2 | http/TCP/8080"},
		{"no address of the link", service(), []*corev1.Pod{pod("a", "169.254.0.1", true, linkLocal)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := lines(DesiredEndpoints(c.service, c.pods, nil)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// row: CTL-14
func TestAddressNamesItsPod(t *testing.T) {
	inDomain := func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain, p.UID = "db-0", "s", "u" }
	e := DesiredEndpoints(service(), []*corev1.Pod{pod("a", "10.1.0.2", true, inDomain), pod("b", "10.1.0.3", true,
		func(p *corev1.Pod) { p.Spec.Hostname = "db-1" })}, nil)
	if e.Name != "s" || e.Namespace != "ns" || len(e.Subsets) != 1 || len(e.Subsets[0].Addresses) != 2 {
		t.Fatalf("got %+v, want ns/s with one subset of two addresses", e)
	}
	a, b := e.Subsets[0].Addresses[0], e.Subsets[0].Addresses[1]
	want := corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "a", UID: "u"}
	if a.TargetRef == nil || *a.TargetRef != want || a.NodeName == nil || *a.NodeName != "n" {
		t.Errorf("got %+v, want %+v on n", a, want)
	}
	if a.Hostname != "db-0" || b.Hostname != "" {
		t.Errorf("got hostnames %q and %q, want db-0 and none", a.Hostname, b.Hostname)
	}
}

func TestExistingObjectKeepsWhatIsItsOwn(t *testing.T) {
	have := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "ns", ResourceVersion: "7",
		Labels:      map[string]string{"gone": "x"},
		Annotations: map[string]string{"own": "y", corev1.EndpointsOverCapacity: "truncated"}}}
	headless := service(func(s *corev1.Service) { s.Labels = map[string]string{corev1.IsHeadlessService: ""} })
	got := DesiredEndpoints(headless, nil, have)
	if got.ResourceVersion != "7" || got.Annotations["own"] != "y" {
		t.Errorf("got %+v, want version 7 and the annotation own", got.ObjectMeta)
	}
	if _, ok := got.Annotations[corev1.EndpointsOverCapacity]; ok {
		t.Errorf("got annotations %v, want none that tells of a cut", got.Annotations)
	}
	if len(got.Labels) != 1 || got.Labels[managedBy] != manager {
		t.Errorf("got labels %v, want %s alone", got.Labels, managedBy)
	}
	if len(have.Labels) != 1 || have.Labels["gone"] != "x" {
		t.Errorf("got labels %v of the existing object, want them as they were", have.Labels)
	}
	if got := DesiredEndpoints(service(func(s *corev1.Service) { s.Labels = nil }), nil, nil); len(got.Labels) != 1 {
		t.Errorf("got labels %v for a Service without, want %s alone", got.Labels, managedBy)
	}
}

func TestThousandAddressesAtMost(t *testing.T) {
	var pods []*corev1.Pod
	for i := range maxCapacity {
		pods = append(pods, pod(fmt.Sprintf("p%04d", i), fmt.Sprintf("10.1.%d.%d", i/250, i%250+1), true))
	}
	full := DesiredEndpoints(service(), pods, nil)
	if n := len(full.Subsets[0].Addresses); n != maxCapacity || full.Annotations[corev1.EndpointsOverCapacity] != "" {
		t.Errorf("got %d addresses and %v, want %d and no annotation", n, full.Annotations, maxCapacity)
	}
	// the Pod that is too many is the last by its name
	pods = append([]*corev1.Pod{pod("z", "10.1.0.0", true)}, pods...)
	cut := DesiredEndpoints(service(), pods, nil)
	if n := len(cut.Subsets[0].Addresses); n != maxCapacity ||
		cut.Annotations[corev1.EndpointsOverCapacity] != "truncated" || cut.Subsets[0].Addresses[0].IP == "10.1.0.0" {
		t.Errorf("got %d addresses and %v, want %d, the annotation, and z left out", n, cut.Annotations, maxCapacity)
	}
	kept := DesiredEndpoints(service(), pods, &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{"own": "y"}}})
	if kept.Annotations["own"] != "y" || kept.Annotations[corev1.EndpointsOverCapacity] != "truncated" {
		t.Errorf("got %v, want own and truncated", kept.Annotations)
	}
}
