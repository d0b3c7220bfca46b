package services

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fakeIPAddressStorage keeps IPAddress objects in memory.
type fakeIPAddressStorage struct {
	mu      sync.Mutex
	entries map[string]string
}

func (b *fakeIPAddressStorage) Allocate(_ context.Context, a *networkingv1.IPAddress) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.entries[a.Name] != "" {
		return ErrIPAllocated
	}
	b.entries[a.Name] = a.Spec.ParentRef.Name
	return nil
}

func (b *fakeIPAddressStorage) Release(_ context.Context, a *networkingv1.IPAddress) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.entries[a.Name] == a.Spec.ParentRef.Name {
		delete(b.entries, a.Name)
	}
	return nil
}

func named(name string) *v1.Service {
	return service(func(s *v1.Service) { s.Name = name })
}

// Two allocators over the same IPAddress objects, as two API servers over one etcd, never give one
// address twice, lose none, and go on in further ranges.
func TestNoAddressIsAllocatedTwice(t *testing.T) {
	b := &fakeIPAddressStorage{entries: map[string]string{"10.0.0.3": "a Gateway"}}
	var allocators []*Allocator
	for range 2 {
		a := allocator(t, "10.0.0.0/29") // six addresses, one of which the Gateway has
		a.UseIPAddressStorage(b, func(context.Context) ([]netip.Prefix, error) {
			return []netip.Prefix{netip.MustParsePrefix("10.0.0.0/29"), netip.MustParsePrefix("10.1.0.0/29")}, nil
		})
		allocators = append(allocators, a)
	}
	made := make([]*v1.Service, 11)
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() {
			made[i] = named(string(rune('a' + i)))
			if err := create(allocators[i%2], made[i]); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var ips []string
	for _, s := range made {
		ips = append(ips, s.Spec.ClusterIP)
		if b.entries[s.Spec.ClusterIP] != s.Name {
			t.Errorf("%s has %s, which is written down for %q", s.Name, s.Spec.ClusterIP, b.entries[s.Spec.ClusterIP])
		}
	}
	slices.Sort(ips)
	if n := len(slices.Compact(ips)); n != 11 {
		t.Fatalf("%d different addresses: %q, want 11", n, ips)
	}
	if err := create(allocators[0], named("late")); err == nil {
		t.Error("an address beyond the last")
	}
	for i, s := range made {
		allocators[i%2].releaseAll(s)
	}
	if len(b.entries) != 1 {
		t.Errorf("left over: got %v, want none", b.entries)
	}
	asked := service(func(s *v1.Service) { s.Name, s.Spec.ClusterIP = "asked", "10.0.0.3" })
	if err := create(allocators[0], asked); err == nil {
		t.Error("the Gateway's address was given to a Service that asked for it")
	}
	allocators[0].ReleaseOrphaned("10.0.0.3")
	delete(b.entries, "10.0.0.3")
	if err := create(allocators[0], asked); err != nil {
		t.Errorf("the address is free by now: %v, want no error", err)
	}
}

func TestRepairIPs(t *testing.T) {
	now := time.Now()
	with := func(name, ip string) v1.Service {
		return v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name},
			Spec: v1.ServiceSpec{Type: v1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip}}}
	}
	entry := func(ip, name string, age time.Duration) networkingv1.IPAddress {
		e := NewIPAddress(ip, "n", name)
		e.CreationTimestamp = metav1.NewTime(now.Add(-age))
		return *e
	}
	gateway := entry("10.0.0.9", "gw", time.Hour)
	gateway.Spec.ParentRef.Group, gateway.Spec.ParentRef.Resource = "gateway.networking.k8s.io", "gateways"
	r := RepairIPs(
		[]v1.Service{with("a", "10.0.0.1"), with("b", "10.0.0.2"), with("twin", "10.0.0.1"), with("h", "None"),
			with("c", "10.0.0.5"), with("far", "10.9.9.9"), with("bad", "10.0")},
		ServiceCIDRState{
			IPAddresses: []networkingv1.IPAddress{entry("10.0.0.1", "a", time.Hour),
				entry("10.0.0.3", "gone", time.Hour), entry("10.0.0.4", "coming", time.Second),
				entry("10.0.0.5", "other", time.Second), entry("10.0.0.6", "a", time.Hour), gateway},
			CIDRs: []networkingv1.ServiceCIDR{{Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.0.0/28"}}}},
		}, now)
	var make, remove []string
	for _, e := range r.Create {
		make = append(make, e.Name+" "+e.Spec.ParentRef.Name)
	}
	for _, e := range r.Delete {
		remove = append(remove, e.Name)
	}
	if !slices.Equal(make, []string{"10.0.0.2 b", "10.0.0.5 c"}) || !slices.Equal(remove,
		[]string{"10.0.0.3", "10.0.0.5", "10.0.0.6"}) {
		t.Errorf("make %q, remove %q", make, remove)
	}
	expectFindings(t, r.Findings, []string{
		"10.0.0.3 IPAddressNotAllocated IPAddress: 10.0.0.3 for Service n/gone appears to have leaked: cleaning up",
		"10.0.0.6 IPAddressWrongReference IPAddress: 10.0.0.6 for Service n/a has a wrong reference; cleaning up",
		"b ClusterIPNotAllocated Cluster IP [IPv4]: 10.0.0.2 is not allocated; repairing",
		"twin ClusterIPAlreadyAllocated Cluster IP [IPv4]:10.0.0.1 was assigned to multiple services; please " +
			"recreate service",
		"c ClusterIPNotAllocated the ClusterIP [IPv4]: 10.0.0.5 for Service n/c has a wrong reference; repairing",
		"far ClusterIPOutOfRange Cluster IP [IPv4]: 10.9.9.9 is not within any configured Service CIDR; please " +
			"recreate service",
		"bad ClusterIPNotValid Cluster IP 10.0 is not a valid IP; please recreate Service",
	})
}

func expectFindings(t *testing.T, all []Finding, want []string) {
	t.Helper()
	var got []string
	for _, f := range all {
		about, err := meta.Accessor(f.Object)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, about.GetName()+" "+f.Reason+" "+f.Text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("said\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestKeepCIDR(t *testing.T) {
	now := metav1.Now()
	cidr := func(edit ...func(*networkingv1.ServiceCIDR)) *networkingv1.ServiceCIDR {
		c := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "c"},
			Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.1.0.0/29"}}}
		for _, e := range edit {
			e(c)
		}
		return c
	}
	held := func(c *networkingv1.ServiceCIDR) { c.Finalizers = []string{rangeFinalizer} }
	going := func(c *networkingv1.ServiceCIDR) { c.DeletionTimestamp = &now }
	entries := []networkingv1.IPAddress{*NewIPAddress("10.1.0.3", "n", "s")}
	if n, _ := SyncServiceCIDR(cidr(), ServiceCIDRState{}, now); n.Finalizers == nil ||
		n.Finalizers.Finalizers[0] != rangeFinalizer {
		t.Errorf("a new one: got %+v, want Finalizers set and Finalizers.Finalizers[0] %v", n, rangeFinalizer)
	}
	n, _ := SyncServiceCIDR(cidr(held), ServiceCIDRState{}, now)
	if n.Status == nil || n.Status.Status.Conditions[0].Message != readyMessage {
		t.Errorf("not ready yet: %+v", n)
	}
	if again, _ := SyncServiceCIDR(n.Status, ServiceCIDRState{}, now); again != (ServiceCIDRUpdate{}) {
		t.Errorf("all is right: %+v, want %v", again, (ServiceCIDRUpdate{}))
	}
	n, blocked := SyncServiceCIDR(cidr(held, going), ServiceCIDRState{IPAddresses: entries}, now)
	if !blocked || n.Status == nil || n.Status.Status.Conditions[0].Message != terminatingMessage {
		t.Errorf("in use: %+v", n)
	}
	wider := cidr()
	wider.Name, wider.Spec.CIDRs = "wider", []string{"10.1.0.0/16"}
	if n, blocked := SyncServiceCIDR(cidr(held, going),
		ServiceCIDRState{IPAddresses: entries, CIDRs: []networkingv1.ServiceCIDR{*wider}}, now); blocked ||
		n.Finalizers == nil || len(n.Finalizers.Finalizers) > 0 {
		t.Errorf("another one covers its addresses: %t %+v", blocked, n)
	}
}
