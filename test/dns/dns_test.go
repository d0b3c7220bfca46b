package dns

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coredns/coredns/plugin/metrics/vars"
	miekg "github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/dns"
	"github.com/gantry-project/gantry/internal/dns/plan"
	"github.com/gantry-project/gantry/test/expect"
)

func headless(s *v1.Service) { s.Spec.ClusterIP = v1.ClusterIPNone }

func endpoint(ip, hostname string, ready bool) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
	if hostname != "" {
		e.Hostname = ptr.To(hostname)
	}
	return e
}

// https://github.com/kubernetes/dns/blob/master/docs/specification.md
func TestRecords(t *testing.T) {
	w := newFixture(t, nil)
	web := w.service("web", nil).Spec.ClusterIP
	w.service("set", headless)
	w.slice("set", endpoint("10.1.0.1", "zero", true), endpoint("10.1.0.2", "one", true),
		endpoint("10.1.0.3", "late", false), endpoint("10.1.0.4", "", true))
	w.service("away", func(s *v1.Service) {
		s.Spec = v1.ServiceSpec{Type: v1.ServiceTypeExternalName, ExternalName: "web.default.svc.cluster.local"}
	})
	external := func(to string) func(*v1.Service) {
		return func(s *v1.Service) { s.Spec = v1.ServiceSpec{Type: v1.ServiceTypeExternalName, ExternalName: to} }
	}
	w.service("farther", external("away.default.svc.cluster.local"))
	w.service("round", external("about.default.svc.cluster.local"))
	w.service("about", external("round.default.svc.cluster.local"))
	w.service("lost", external("none.default.svc.cluster.local"))
	expect.Eventually(w.t, "all is known", func() bool {
		return w.records("zero.set.default.svc.cluster.local", miekg.TypeA) == "A 10.1.0.1" &&
			w.records("lost.default.svc.cluster.local", miekg.TypeA) == ""
	})
	reverse, err := miekg.ReverseAddr(web)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		kind uint16
		want string
	}{
		{"web.default.svc.cluster.local", miekg.TypeA, "A " + web},
		{"WEB.default.svc.CLUSTER.local", miekg.TypeA, "A " + web},
		{"web.default.svc.cluster.local", miekg.TypeAAAA, ""},
		{"_http._tcp.web.default.svc.cluster.local", miekg.TypeSRV, "SRV 0 100 80 web.default.svc.cluster.local."},
		{reverse, miekg.TypePTR, "PTR web.default.svc.cluster.local."},
		{"set.default.svc.cluster.local", miekg.TypeA, "A 10.1.0.1, A 10.1.0.2, A 10.1.0.4"},
		{"late.set.default.svc.cluster.local", miekg.TypeA, "NXDOMAIN"},
		{"_http._tcp.set.default.svc.cluster.local", miekg.TypeSRV,
			"SRV 0 33 8080 10-1-0-4.set.default.svc.cluster.local., SRV 0 33 8080 " +
				"one.set.default.svc.cluster.local., SRV 0 33 8080 zero.set.default.svc.cluster.local."},
		{"_dns._tcp.set.default.svc.cluster.local", miekg.TypeSRV, "NXDOMAIN"},
		{"_http._udp.set.default.svc.cluster.local", miekg.TypeSRV, "NXDOMAIN"},
		{"10-1-0-4.set.default.svc.cluster.local", miekg.TypeA, "A 10.1.0.4"},
		{"4.0.1.10.in-addr.arpa", miekg.TypePTR, "PTR 10-1-0-4.set.default.svc.cluster.local."},
		{"1.0.1.10.in-addr.arpa", miekg.TypePTR, "PTR zero.set.default.svc.cluster.local."},
		{"10-1-0-1.default.pod.cluster.local", miekg.TypeA, "A 10.1.0.1"},
		{"10-1-0-1.nowhere.pod.cluster.local", miekg.TypeA, "NXDOMAIN"},
		{"away.default.svc.cluster.local", miekg.TypeA, "A " + web + ", CNAME web.default.svc.cluster.local."},
		{"farther.default.svc.cluster.local", miekg.TypeA,
			"A " + web + ", CNAME away.default.svc.cluster.local., CNAME web.default.svc.cluster.local."},
		{"round.default.svc.cluster.local", miekg.TypeA, ""}, // a circle has an end
		{"lost.default.svc.cluster.local", miekg.TypeA, ""},
		{"dns-version.cluster.local", miekg.TypeTXT, `TXT "1.1.0"`},
		{"none.default.svc.cluster.local", miekg.TypeA, "NXDOMAIN"},
		{"web.none.svc.cluster.local", miekg.TypeA, "NXDOMAIN"},
		{"example.com", miekg.TypeA, "NXDOMAIN"},
		{"9.9.9.9.in-addr.arpa", miekg.TypePTR, "NXDOMAIN"},
	} {
		if got := w.records(c.name, c.kind); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.name, miekg.TypeToString[c.kind], got, c.want)
		}
	}
	tcp := miekg.Client{Net: "tcp", Timeout: time.Minute}
	if r, _, err := tcp.Exchange(new(miekg.Msg).SetQuestion("web.default.svc.cluster.local.", miekg.TypeA),
		w.server.Address().String()); err != nil || len(r.Answer) != 1 {
		t.Errorf("by TCP: got %v %v, want no error and Answer of length 1", r, err)
	}
}

// A change is answered as soon as it is seen, as nothing about the cluster is cached.
func TestChangesShowAtOnce(t *testing.T) {
	w := newFixture(t, nil)
	w.service("set", headless)
	for i := range 5 {
		ip := fmt.Sprintf("10.2.0.%d", i+1)
		began := time.Now()
		w.slice("set", endpoint(ip, "", true))
		expect.Eventually(w.t, "the new endpoint is answered",
			func() bool { return strings.Contains(w.records("set.default.svc.cluster.local", miekg.TypeA), ip) })
		t.Logf("answered after %s", time.Since(began))
	}
	if err := w.Client.CoreV1().Services("default").Delete(t.Context(), "set", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect.Eventually(w.t, "the name is gone",
		func() bool { return w.records("set.default.svc.cluster.local", miekg.TypeA) == "NXDOMAIN" })
}

func TestUpstreamsAndStubDomains(t *testing.T) {
	first, second, stub := newUpstream(t, "192.0.2.1"), newUpstream(t, "192.0.2.2"), newUpstream(t, "192.0.2.3")
	w := newFixture(t, func(o *dns.Options) {
		o.NoUpstreams, o.Base = false, plan.Settings{Upstreams: []netip.AddrPort{first.at}}
	})
	if got := w.records("a.example.com", miekg.TypeA); got != "A 192.0.2.1" {
		t.Errorf("outside the cluster: %q, want \"A 192.0.2.1\"", got)
	}
	maps := w.Client.CoreV1().ConfigMaps("kube-system")
	m, err := maps.Create(t.Context(), &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: plan.ConfigMapName},
		Data: map[string]string{
			plan.KeyUpstreams: fmt.Sprintf("[%q]", second.at), plan.KeyStubs: fmt.Sprintf(`{"corp.example": [%q]}`,
				stub.at),
		}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	expect.Eventually(w.t, "the stub domain is in force",
		func() bool { return w.records("x.corp.example", miekg.TypeA) == "A 192.0.2.3" })
	if got := w.records("b.example.com", miekg.TypeA); got != "A 192.0.2.2" {
		t.Errorf("the ConfigMap's upstream is not asked: %q, want \"A 192.0.2.2\"", got)
	}
	if got := w.records("kubernetes.default.svc.cluster.local", miekg.TypeA); got != "A 10.96.0.1" {
		t.Errorf("the cluster's names: %q, want \"A 10.96.0.1\"", got)
	}
	m.Data[plan.KeyStubs] = "nonsense" // changes nothing; the next change shows that it was seen
	if m, err = maps.Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := w.records("y.corp.example", miekg.TypeA); got != "A 192.0.2.3" {
		t.Errorf("a wrong ConfigMap took the stub domain away: %q, want \"A 192.0.2.3\"", got)
	}
	m.Data = map[string]string{plan.KeyUpstreams: "[]"}
	if _, err = maps.Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect.Eventually(w.t, "nobody is asked", func() bool {
		return w.records(fmt.Sprintf("%d.example.com", time.Now().UnixNano()), miekg.TypeA) == "NXDOMAIN"
	})
	if err := maps.Delete(t.Context(), m.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect.Eventually(w.t, "the first upstream is asked again", func() bool {
		return w.records(fmt.Sprintf("%d.example.com", time.Now().UnixNano()), miekg.TypeA) == "A 192.0.2.1"
	})
}

// Answers of upstreams are cached; a dead one gives SERVFAIL before a client gives up, and never
// slows the cluster's names.
func TestDeadUpstream(t *testing.T) {
	up := newUpstream(t, "192.0.2.1")
	w := newFixture(t,
		func(o *dns.Options) { o.NoUpstreams, o.Base = false, plan.Settings{Upstreams: []netip.AddrPort{up.at}} })
	for range 3 {
		w.records("same.example.com", miekg.TypeA)
	}
	if n := up.queries.Load(); n != 1 {
		t.Errorf("asked %d times for what could be cached, want 1", n)
	}
	up.silent.Store(true)
	began := time.Now()
	if got := w.records("dead.example.com", miekg.TypeA); got != "SERVFAIL" || time.Since(began) > 5*time.Second {
		t.Errorf("%q after %s, want SERVFAIL within the 5 s that resolvers wait", got, time.Since(began))
	}
	began = time.Now()
	if got := w.records("kubernetes.default.svc.cluster.local", miekg.TypeA); got != "A 10.96.0.1" ||
		time.Since(began) > 5*time.Second {
		t.Errorf("%q after %s", got, time.Since(began))
	}
	up.silent.Store(false)
	expect.Eventually(w.t, "it is asked again when it lives", func() bool {
		return w.records(fmt.Sprintf("%d.example.com", time.Now().UnixNano()), miekg.TypeA) == "A 192.0.2.1"
	})
}

// The node's resolver file names the upstreams, but never this server itself.
func TestNodesResolverFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("nameserver 127.0.0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newFixture(t, func(o *dns.Options) { o.NoUpstreams, o.ResolvConf = false, file })
	if got := w.records("example.com", miekg.TypeA); got != "NXDOMAIN" {
		t.Errorf("%q: with no server but itself, it asks nobody, want NXDOMAIN", got)
	}
}

// Nothing that comes over the wire stops the server, whatever Services and slices there are.
func TestMalformedQueriesDoNotPanic(t *testing.T) {
	w := newFixture(t, nil)
	w.service("set", headless)
	w.slice("set", endpoint("10.1.0.1", "zero", true))
	w.service("bare", func(s *v1.Service) { s.Spec.ClusterIP, s.Spec.Ports = v1.ClusterIPNone, nil })
	known := func() bool { return w.records("zero.set.default.svc.cluster.local", miekg.TypeA) == "A 10.1.0.1" }
	expect.Eventually(w.t, "all is known", known)
	raw, err := net.Dial("udp", w.server.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	before := testutil.ToFloat64(vars.Panic)
	label := rapid.SampledFrom([]string{"", "a", "_", "_http", "_tcp", "set", "bare", "zero", "default", "svc", "pod",
		"cluster", "local", "10-1-0-1", "in-addr", "arpa", "ip6", "1", "*", "any", "endpoint", "ns", "dns", "xn--",
		strings.Repeat("l", 63)})
	rapid.Check(t, func(t *rapid.T) {
		if rapid.Bool().Draw(t, "garbage") {
			_, _ = raw.Write(rapid.SliceOfN(rapid.Byte(), 0, 600).Draw(t, "bytes")) // no answer is due
			return
		}
		name := strings.Join(rapid.SliceOfN(label, 0, 8).Draw(t, "labels"), ".") + rapid.SampledFrom(
			[]string{".", ".svc.cluster.local.", ".cluster.local.", ".pod.cluster.local.", ".in-addr.arpa."}).Draw(t,
			"end")
		q := new(miekg.Msg).SetQuestion(name, rapid.Uint16().Draw(t, "type"))
		q.Question[0].Qclass = rapid.SampledFrom([]uint16{miekg.ClassINET, miekg.ClassCHAOS, miekg.ClassANY, 0}).Draw(t,
			"class")
		q.Opcode = rapid.IntRange(0, 6).Draw(t, "opcode")
		if wire, err := q.Pack(); err == nil {
			_, _ = raw.Write(wire)
		}
	})
	if !known() {
		t.Error("afterwards the server does not answer as before")
	}
	if n := testutil.ToFloat64(vars.Panic) - before; n != 0 {
		t.Errorf("%v panics were caught, want 0", n)
	}
}

// Options that cannot work are refused before anything listens.
func TestOptions(t *testing.T) {
	for _, o := range []dns.Options{{}, {Domain: "x"}} {
		if _, err := dns.New(t.Context(), o); err == nil || !strings.HasPrefix(err.Error(), "dns: ") {
			t.Errorf("%+v: got %v, want an error beginning with dns:", o, err)
		}
	}
}
