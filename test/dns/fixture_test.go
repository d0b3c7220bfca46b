package dns

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	miekg "github.com/miekg/dns"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/dns"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/testcluster"
)

// fixture is a cluster with a DNS server on loopback.
type fixture struct {
	*testcluster.Cluster
	t      testing.TB
	server *dns.Server
}

func newFixture(t testing.TB, change func(*dns.Options)) *fixture {
	t.Helper()
	w := &fixture{Cluster: testcluster.Start(t), t: t}
	w.server = w.serve(change)
	expect.Eventually(w.t, "the API server's name is known",
		func() bool { return len(w.ask("kubernetes.default.svc.cluster.local", miekg.TypeA).Answer) == 1 })
	return w
}

// serve starts one more server, until the test ends.
func (w *fixture) serve(change func(*dns.Options)) *dns.Server {
	w.t.Helper()
	o := dns.Options{API: w.Config, Domain: "cluster.local", Node: "node-1", NoUpstreams: true,
		Listen: dns.Listen{Bind: netip.MustParseAddrPort("127.0.0.1:0")}}
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := dns.New(ctx, o)
	if err != nil {
		cancel()
		w.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("the DNS server ended: %v, want no error", err)
		}
	})
	return s
}

// ask returns the answer; none at all fails the test.
func (w *fixture) ask(name string, kind uint16) *miekg.Msg {
	w.t.Helper()
	q := new(miekg.Msg).SetQuestion(miekg.Fqdn(name), kind)
	c := miekg.Client{Timeout: time.Minute}
	r, _, err := c.Exchange(q, w.server.Address().String())
	if err != nil {
		w.t.Fatalf("%s: got error %v, want none", name, err)
	}
	return r
}

// records are the answer's, without names and times, in order.
func (w *fixture) records(name string, kind uint16) string {
	w.t.Helper()
	r := w.ask(name, kind)
	if r.Rcode != miekg.RcodeSuccess {
		return miekg.RcodeToString[r.Rcode]
	}
	var out []string
	for _, one := range r.Answer {
		out = append(out, miekg.TypeToString[one.Header().Rrtype]+" "+strings.TrimPrefix(one.String(),
			one.Header().String()))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func (w *fixture) service(name string, change func(*v1.Service)) *v1.Service {
	w.t.Helper()
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1.ServiceSpec{Ports: []v1.ServicePort{{Name: "http", Port: 80}}}}
	if change != nil {
		change(s)
	}
	s, err := w.Client.CoreV1().Services("default").Create(w.t.Context(), s, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *fixture) slice(service string, endpoints ...discoveryv1.Endpoint) {
	w.t.Helper()
	e := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: service + "-",
			Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To(int32(8080))}},
	}
	if _, err := w.Client.DiscoveryV1().EndpointSlices("default").Create(w.t.Context(), e,
		metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// upstream is a DNS server that says who it is, or does not answer while silent is set.
type upstream struct {
	at      netip.AddrPort
	silent  atomic.Bool
	queries atomic.Int64
}

func newUpstream(t testing.TB, says string) *upstream {
	t.Helper()
	u := &upstream{}
	ready := make(chan struct{})
	s := &miekg.Server{Addr: "127.0.0.1:0", Net: "udp", NotifyStartedFunc: func() { close(ready) },
		Handler: miekg.HandlerFunc(func(w miekg.ResponseWriter, r *miekg.Msg) {
			if u.silent.Load() {
				return
			}
			m := new(miekg.Msg).SetReply(r)
			if r.Question[0].Qtype == miekg.TypeA {
				u.queries.Add(1)
				a, _ := miekg.NewRR(r.Question[0].Name + " 1 IN A " + says)
				m.Answer = []miekg.RR{a}
			}
			_ = w.WriteMsg(m)
		})}
	ended := make(chan error, 1)
	go func() { ended <- s.ListenAndServe() }()
	<-ready
	u.at = netip.MustParseAddrPort(s.PacketConn.LocalAddr().String())
	t.Cleanup(func() { _ = s.Shutdown(); _ = <-ended })
	return u
}
