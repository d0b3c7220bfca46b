package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/knftables"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/proxy/nftables"
	"github.com/gantry-project/gantry/internal/proxy/rules"
	"github.com/gantry-project/gantry/test/expect"
)

// refusingTable is a kernel that refuses everything while refuses is set.
type refusingTable struct {
	*knftables.Fake
	refuses bool
}

func (r *refusingTable) Run(ctx context.Context, tx *knftables.Transaction) error {
	if r.refuses {
		return errors.New("refused")
	}
	return r.Fake.Run(ctx, tx)
}

type recordingSink []string

func (f *recordingSink) Put(_ journal.Ref, fact journal.Fact) {
	*f = append(*f, fmt.Sprintf("%T", fact))
}

// testProxier is a proxy for one UDP Service, whose kernel and conntrack fail on demand.
type testProxier struct {
	*Proxier
	t       *testing.T
	client  *fake.Clientset
	kernel  *refusingTable
	logs    recordingSink
	queued  []string // of a and b, those whose flows were deleted as stale
	unready error    // error of deleting stale entries
}

func newTestProxier(t *testing.T) *testProxier {
	s := rules.Settings{Family: rules.IPv4, MasqueradeBit: 14}
	x := &testProxier{t: t, client: fake.NewClientset(),
		kernel: &refusingTable{Fake: knftables.NewFake(knftables.IPv4Family, "t")}}
	service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "dns"}, Spec: v1.ServiceSpec{
		ClusterIP: "10.96.0.10", ClusterIPs: []string{"10.96.0.10"}, IPFamilies: []v1.IPFamily{v1.IPv4Protocol},
		Ports: []v1.ServicePort{{Port: 53, Protocol: v1.ProtocolUDP}},
	}}
	if _, err := x.client.CoreV1().Services("d").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var err error
	x.Proxier, err = New(Options{Client: x.client, Node: "n1", Journal: &x.logs,
		Tables: []Table{{Settings: s, Kernel: nftables.NewWithInterface(x.kernel, rules.NewTableFrame(s))}},
		CleanStaleEntries: func(_ rules.Family, f *rules.UDPFlows) (int, error) {
			stale := ""
			for _, e := range []string{"a10.1.0.1:53", "b10.1.0.2:53"} {
				if f.Stale(netip.MustParseAddrPort("10.96.0.10:53"), netip.MustParseAddrPort(e[1:])) {
					stale += e[:1]
				}
			}
			x.queued = append(x.queued, stale)
			return 0, x.unready
		}})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.watch(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.endpoint("10.1.0.1")
	x.needFullSync = true
	if x.syncProxyRules(t.Context(), true) {
		t.Fatal("the first look failed")
	}
	x.queued = nil
	return x
}

// endpoint makes ip the only endpoint, and waits until the cache has it.
func (x *testProxier) endpoint(ip string) {
	x.t.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "dns-1",
			Labels: map[string]string{discoveryv1.LabelServiceName: "dns"}}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		Ports: []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(53)), Protocol: new(v1.ProtocolUDP)}},
	}
	_, err := x.client.DiscoveryV1().EndpointSlices("d").Update(x.t.Context(), slice, metav1.UpdateOptions{})
	if err != nil {
		_, err = x.client.DiscoveryV1().EndpointSlices("d").Create(x.t.Context(), slice, metav1.CreateOptions{})
	}
	if err != nil {
		x.t.Fatal(err)
	}
	for end := time.Now().Add(expect.Patience(time.Minute)); ; time.Sleep(time.Millisecond) {
		if _, seen := x.caches.service("d/dns"); len(seen) == 1 && seen[0].Endpoints[0].Addresses[0] == ip &&
			x.changes.pendingCount(endpointSlices) > 0 {
			return
		}
		if time.Now().After(end) {
			x.t.Fatal("the slice is not seen")
		}
	}
}

// What the kernel refuses at first is reported when it is applied, and stale flows are deleted
// then.
func TestSuccessfulRetryIsReportedAndConntrackCleared(t *testing.T) {
	x := newTestProxier(t)
	x.kernel.refuses = true
	x.endpoint("10.1.0.2")
	if !x.syncProxyRules(t.Context(), false) || len(x.logs) != 0 {
		t.Fatalf("while the kernel refuses, the journal says %q", x.logs)
	}
	x.queued, x.kernel.refuses = nil, false
	if x.syncProxyRules(t.Context(), false) {
		t.Fatal("the retry failed")
	}
	if got := strings.Join(x.logs, " "); got != "journal.RulesChanged" {
		t.Errorf("the journal says %q, want journal.RulesChanged", got)
	}
	if !slices.Equal(x.queued, []string{"a"}) {
		t.Errorf("forgotten after the retry: %q", x.queued)
	}
	if x.syncProxyRules(t.Context(), false); len(x.queued) != 1 || len(x.logs) != 1 {
		t.Errorf("reported or cleared once more: %q, %q, want 1 of them, 1 of them", x.queued, x.logs)
	}
}

// Flows that could not be deleted are at the next sync, although nothing else changes; nothing is
// reported twice.
func TestConntrackClearIsRetried(t *testing.T) {
	x := newTestProxier(t)
	x.unready = errors.New("not now")
	x.endpoint("10.1.0.2")
	for range 2 {
		if x.syncProxyRules(t.Context(), false) {
			t.Fatal("the look failed")
		}
	}
	x.unready = nil
	for range 2 {
		x.syncProxyRules(t.Context(), false)
	}
	if !slices.Equal(x.queued, []string{"a", "a", "a"}) || len(x.logs) != 1 {
		t.Errorf("forgotten %q, the journal says %q", x.queued, x.logs)
	}
}
