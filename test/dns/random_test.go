package dns

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	miekg "github.com/miekg/dns"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/gantry-project/gantry/test/expect"
)

// Whatever Services and endpoints there are, names lead where DNS's specification says: a cluster
// IP, the ready ones of a headless Service, or those not ready too where the Service wants it so,
// another name; and what does not exist has no address.
func TestRandomServices(t *testing.T) {
	w := newFixture(t, nil)
	rng := rand.New(rand.NewPCG(6, 6))
	want := map[string]string{}
	name := func(s string) string { return s + ".default.svc.cluster.local" }
	for i := range 40 {
		s := fmt.Sprint("s", i)
		switch rng.IntN(3) {
		case 0:
			want[name(s)] = "A " + w.service(s, nil).Spec.ClusterIP
		case 1:
			to := name(fmt.Sprint("s", rng.IntN(60)))
			w.service(s,
				func(x *v1.Service) { x.Spec = v1.ServiceSpec{Type: v1.ServiceTypeExternalName, ExternalName: to} })
			want[name(s)] = "> " + to
		default:
			all := rng.IntN(2) == 0
			w.service(s,
				func(x *v1.Service) { x.Spec.ClusterIP, x.Spec.PublishNotReadyAddresses = v1.ClusterIPNone, all })
			var ends []discoveryv1.Endpoint
			var ips []string
			for n := range rng.IntN(4) {
				ip, host, ready := fmt.Sprintf("10.1.%d.%d", i, n+1), fmt.Sprint("h", n), rng.IntN(2) == 0
				// The controller of slices says of such a Service's endpoints that all are ready.
				ends = append(ends, endpoint(ip, host, ready || all))
				if ready || all {
					ips = append(ips, "A "+ip)
					want[host+"."+name(s)] = "A " + ip
				} else {
					want[host+"."+name(s)] = "NXDOMAIN"
				}
			}
			if len(ends) > 0 {
				w.slice(s, ends...)
			}
			slices.Sort(ips)
			if want[name(s)] = strings.Join(ips, ", "); len(ips) == 0 {
				want[name(s)] = "NXDOMAIN" // CoreDNS says so of a headless Service that nobody stands behind
			}
		}
		want["no"+name(s)] = "NXDOMAIN"
	}
	w.service("last", nil)
	w.slice("last", endpoint("10.1.99.1", "", true))
	expect.Eventually(w.t, "the last is known",
		func() bool { return strings.HasPrefix(w.records(name("last"), miekg.TypeA), "A ") })
	for _, n := range slices.Sorted(maps.Keys(want)) {
		answer := want[n]
		if to, alias := strings.CutPrefix(answer, "> "); alias {
			// An alias is answered with what it leads to, step by step; one that leads nowhere, or
			// round in a circle, has no address.
			end := n
			for range len(want) {
				next, more := strings.CutPrefix(want[end], "> ")
				if !more {
					break
				}
				end = next
			}
			has := strings.HasPrefix(want[end], "A ")
			expect.Eventually(w.t, fmt.Sprintf("%s leads to %s, which has an address: %v", n, end, has), func() bool {
				got := w.records(n, miekg.TypeA)
				if !has {
					return !strings.HasPrefix(got, "A ")
				}
				return strings.HasPrefix(got, want[end]+", ") && strings.Contains(got, "CNAME "+to+".")
			})
			continue
		}
		expect.Eventually(w.t, fmt.Sprintf("%s has %q", n, answer),
			func() bool { return w.records(n, miekg.TypeA) == answer })
	}
}
