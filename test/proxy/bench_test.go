package proxy

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/test/expect"
)

// fill adds n Services with three endpoints each.
func (w *fixture) fill(n int) {
	w.t.Helper()
	for i := range n {
		name, ip := fmt.Sprintf("s%d", i), fmt.Sprintf("10.97.%d.%d", i>>8, i&255)
		s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: v1.ServiceSpec{Type: v1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip},
				Ports: []v1.ServicePort{{Name: "t", Protocol: v1.ProtocolTCP, Port: 80}}}}
		expect.NoError(w.t, w.client.Tracker().Add(s))
		e := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-1",
			Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports: []discoveryv1.EndpointPort{{Name: new("t"), Protocol: new(v1.ProtocolTCP),
				Port: new(int32(8080))}}}
		for k := range 3 {
			e.Endpoints = append(e.Endpoints,
				discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.%d.%d.%d", 100+k, i>>8, i&255)}})
		}
		expect.NoError(w.t, w.client.Tracker().Add(e))
	}
}

// BenchmarkChangeToRule is the time from the write of a slice to the rule in the kernel, among n
// Services.
func BenchmarkChangeToRule(b *testing.B) {
	for _, n := range []int{10, 1000, 10000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			w := newFixture(b)
			w.fill(n)
			w.service(nil)
			w.endpoints(end{ip: "10.199.0.50", node: "n1"})
			began := time.Now()
			defer w.run()()
			b.ReportMetric(float64(time.Since(began).Milliseconds()), "first-sync-ms")
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				at := time.Now()
				w.endpoints(end{ip: fmt.Sprintf("10.199.0.%d", 51+i%2), node: "n1"})
				for said := ""; !strings.Contains(said, "RulesChanged"); said = <-w.facts.said {
				}
				took = append(took, time.Since(at))
				time.Sleep(2 * time.Millisecond) // the proxy's least time between two changes, here
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// BenchmarkConnect is one TCP connection with one answer, straight to the Pod and through its
// Service among n others.
func BenchmarkConnect(b *testing.B) {
	for _, n := range []int{0, 10, 1000, 10000} {
		name, at := fmt.Sprintf("service-among=%d", n), vip
		if n == 0 {
			name = "direct"
		}
		b.Run(name, func(b *testing.B) {
			w := newFixture(b)
			a, client := w.pod(), w.pod()
			w.serve(a)
			w.fill(n)
			w.service(nil)
			w.endpoints(end{ip: a.ip, node: "n1"})
			defer w.run()()
			if n == 0 {
				at = net.JoinHostPort(a.ip, "8080")
			}
			expect.NoError(b, client.Do(func(ns.NetNS) error {
				for b.Loop() {
					c, err := net.Dial("tcp", at)
					if err != nil {
						return err
					}
					_, _, err = answer(c, "tcp")
					c.Close()
					if err != nil {
						return err
					}
				}
				return nil
			}))
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "connections/s")
		})
	}
}
