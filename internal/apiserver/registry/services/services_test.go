package services

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func allocator(t testing.TB, cidr string, stored ...v1.Service) *Allocator {
	t.Helper()
	a, err := New([]netip.Prefix{netip.MustParsePrefix(cidr)}, 30000, 30010,
		func(context.Context) ([]v1.Service, error) { return stored, nil })
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func service(edit ...func(*v1.Service)) *v1.Service {
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"},
		Spec: v1.ServiceSpec{Selector: map[string]string{"a": "b"}, Ports: []v1.ServicePort{{Port: 80}}}}
	for _, e := range edit {
		e(s)
	}
	Default(s)
	return s
}

func create(a *Allocator, s *v1.Service) error {
	done, err := a.begin(context.Background(), s, nil, false)
	if err == nil {
		done(true)
	}
	return err
}

func nodePort(s *v1.Service) { s.Spec.Type = v1.ServiceTypeNodePort }

// TestAddressesAndPortsAreUnique: whatever Services come and go, no address and no port is held
// twice, and all come back.
func TestAddressesAndPortsAreUnique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, err := New([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/28")}, 30000, 30004,
			func(context.Context) ([]v1.Service, error) { return nil, nil })
		if err != nil {
			t.Fatal(err)
		}
		var live []*v1.Service
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if len(live) > 0 && rapid.Bool().Draw(t, "delete") {
				i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
				a.releaseAll(live[i])
				live = slices.Delete(live, i, i+1)
				continue
			}
			s := service()
			if rapid.Bool().Draw(t, "node port") {
				nodePort(s)
				Default(s)
			}
			done, err := a.begin(context.Background(), s, nil, false)
			if err != nil {
				continue // full
			}
			stored := rapid.Bool().Draw(t, "stored")
			if done(stored); stored {
				live = append(live, s)
			}
		}
		ips, ports := map[string]bool{}, map[int32]bool{}
		for _, s := range live {
			if ips[s.Spec.ClusterIP] || s.Spec.ClusterIP == "" {
				t.Fatalf("%q is held twice", s.Spec.ClusterIP)
			}
			ips[s.Spec.ClusterIP] = true
			if n := s.Spec.Ports[0].NodePort; n != 0 {
				if ports[n] {
					t.Fatalf("port %d is held twice", n)
				}
				ports[n] = true
			}
		}
		for _, s := range live {
			a.releaseAll(s)
		}
		for range 14 {
			if err := create(a, service()); err != nil {
				t.Fatalf("an address was lost: %v, want no error", err)
			}
		}
		if err := create(a, service()); err == nil {
			t.Fatal("a /28 gave more than 14 addresses")
		}
	})
}

func TestRequestedAddressesAndPortsAreAllocated(t *testing.T) {
	a := allocator(t, "10.96.0.0/16",
		v1.Service{Spec: v1.ServiceSpec{ClusterIPs: []string{"10.96.0.1"}, Ports: []v1.ServicePort{{NodePort: 30001}}}})
	ip := func(ip string) func(*v1.Service) { return func(s *v1.Service) { s.Spec.ClusterIP = ip } }
	for _, c := range []struct {
		s    *v1.Service
		want string
	}{
		{service(ip("10.96.0.77")), ""},
		{service(ip("10.96.0.77")),
			`Service "s" is invalid: spec.clusterIPs: Invalid value: ["10.96.0.77"]: failed to allocate IP ` +
				`10.96.0.77: provided IP is already allocated`},
		{service(ip("10.96.0.1")),
			`Service "s" is invalid: spec.clusterIPs: Invalid value: ["10.96.0.1"]: failed to allocate IP 10.96.0.1: ` +
				`provided IP is already allocated`},
		{service(ip("10.97.0.1")),
			`Service "s" is invalid: spec.clusterIPs: Invalid value: ["10.97.0.1"]: failed to allocate IP 10.97.0.1: ` +
				`the provided network does not match the current range`},
		{service(nodePort, func(s *v1.Service) { s.Spec.Ports[0].NodePort = 30001 }),
			`Service "s" is invalid: spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated`},
		{service(nodePort, func(s *v1.Service) { s.Spec.Ports[0].NodePort = 40000 }),
			`Service "s" is invalid: spec.ports[0].nodePort: Invalid value: 40000: provided port is not in the valid ` +
				`range. The range of valid ports is 30000-30010`},
	} {
		got := ""
		if err := create(a, c.s); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// TestServiceUpdate: a PUT of the manifest keeps what was given; types come and go with what they
// need.
func TestServiceUpdate(t *testing.T) {
	a := allocator(t, "10.96.0.0/16")
	old := service(nodePort, func(s *v1.Service) {
		s.Spec.Ports = []v1.ServicePort{{Name: "t", Port: 53}, {Name: "u", Port: 53, Protocol: v1.ProtocolUDP}}
	})
	if err := create(a, old); err != nil {
		t.Fatal(err)
	}
	if p := old.Spec.Ports; p[0].NodePort == 0 || p[0].NodePort != p[1].NodePort {
		t.Errorf("one number for both protocols: got %v, want [0].NodePort other than 0 and [0].NodePort %v", p,
			p[1].NodePort)
	}
	update := func(s *v1.Service) *v1.Service {
		t.Helper()
		done, err := a.begin(context.Background(), s, old, false)
		if err != nil {
			t.Fatal(err)
		}
		dropTypeDependentFields(s, old)
		if errs := ValidateUpdate(s, old); len(errs) > 0 {
			t.Fatalf("got %v, want no errs", errs)
		}
		done(true)
		return s
	}
	again := service(nodePort, func(s *v1.Service) {
		s.Spec.Ports = []v1.ServicePort{{Name: "t", Port: 53}, {Name: "u", Port: 53, Protocol: v1.ProtocolUDP}}
	})
	if update(again); again.Spec.ClusterIP != old.Spec.ClusterIP ||
		again.Spec.Ports[0].NodePort != old.Spec.Ports[0].NodePort {
		t.Errorf("got %+v, want ClusterIP %v and NodePort %v", again.Spec, old.Spec.ClusterIP,
			old.Spec.Ports[0].NodePort)
	}
	plain := old.DeepCopy()
	plain.Spec.Type = v1.ServiceTypeClusterIP
	if update(plain); plain.Spec.Ports[0].NodePort != 0 || plain.Spec.ExternalTrafficPolicy != "" ||
		plain.Spec.ClusterIP != old.Spec.ClusterIP {
		t.Errorf("got %+v, want NodePort 0, ExternalTrafficPolicy empty and ClusterIP %v", plain.Spec,
			old.Spec.ClusterIP)
	}
	if err := a.ports.allocate(int(old.Spec.Ports[0].NodePort)); err != nil {
		t.Errorf("the node port was not given back: %v, want no error", err)
	}
	old = plain
	moved := plain.DeepCopy()
	moved.Spec.ClusterIP = "10.96.9.9"
	done, err := a.begin(context.Background(), moved, old, false)
	if err != nil {
		t.Fatal(err)
	}
	if errs := ValidateUpdate(moved, old); len(errs) != 1 ||
		errs[0].Error() != `spec.clusterIPs[0]: Invalid value: ["10.96.9.9"]: may not change once set` {
		t.Errorf(`got %v, want 1 in errs and errs[0] 'spec.clusterIPs[0]: Invalid value: ["10.96.9.9"]: may …'`, errs)
	}
	done(false)
	if err := a.pools[0].allocate("10.96.9.9"); err != nil {
		t.Error("a refused update kept its address")
	}
}

func TestDryRunAndFailedList(t *testing.T) {
	a := allocator(t, "10.96.0.0/30")
	for range 5 {
		shown := service()
		done, err := a.begin(context.Background(), shown, nil, true)
		if err != nil {
			t.Fatal(err)
		}
		// What it shows is anybody's, before it has ended too.
		taken, err := a.begin(context.Background(), service(func(s *v1.Service) {
			s.Spec.ClusterIP, s.Spec.ClusterIPs = shown.Spec.ClusterIP, shown.Spec.ClusterIPs
		}), nil, false)
		if err != nil {
			t.Fatal(err)
		}
		taken(false)
		done(true)
	}
	broken, err := New([]netip.Prefix{netip.MustParsePrefix("10.96.0.0/30")}, 1, 2,
		func(context.Context) ([]v1.Service, error) { return nil, errors.New("no store") })
	if err != nil {
		t.Fatal(err)
	}
	if err := create(broken, service()); err == nil {
		t.Error("addresses were given before it was known which are taken")
	}
}

func TestIPRange(t *testing.T) {
	p := newIPPool(netip.MustParsePrefix("10.96.0.0/16"), func(int) int { return 0 })
	if got, _ := p.allocateNext(); got != "10.96.1.1" {
		t.Errorf("the low band is for people: got %s, want 10.96.1.1", got)
	}
	for text, want := range map[string]error{"10.96.0.0": errNotInRange, "10.96.255.255": errNotInRange,
		"10.96.255.254": nil, "10.96.1.1": errAllocated} {
		if err := p.allocate(text); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
	six := newIPPool(netip.MustParsePrefix("fd00::/108"), func(int) int { return 0 })
	if got, err := six.allocateNext(); err != nil || netip.MustParseAddr(got).Is4() {
		t.Errorf("got %v, %v, want no error and netip.MustParseAddr(got).Is4() false", got, err)
	}
}

func TestTableRow(t *testing.T) {
	s := service(nodePort)
	s.Spec.ClusterIPs, s.Spec.Ports[0].NodePort = []string{"10.96.0.5"}, 30007
	if got, want := fmt.Sprint(Row(s, metav1.Time{})[1:5]),
		"[NodePort 10.96.0.5 <none> 80:30007/TCP]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s.Spec.Type = v1.ServiceTypeLoadBalancer
	if got := Row(s, metav1.Time{})[3]; got != "<pending>" {
		t.Errorf(`got %q, want "<pending>"`, got)
	}
}

// TestADryRunAsksOnlyWhetherPortsAreFree: in a dry run a port out of the range is no conflict, as
// in upstream's operation; one that is held is, and nothing is held afterwards.
func TestADryRunAsksOnlyWhetherPortsAreFree(t *testing.T) {
	a := allocator(t, "10.0.0.0/28")
	if err := create(a, service(nodePort, func(s *v1.Service) { s.Spec.Ports[0].NodePort = 30001 })); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		port    int32
		dry, ok bool
	}{{80, true, true}, {70000, true, true}, {30001, true, false}, {30002, true, true}, {80, false, false},
		{30002, false, true}} {
		s := service(nodePort, func(s *v1.Service) { s.Spec.Ports[0].NodePort = c.port })
		finish, err := a.begin(t.Context(), s, nil, c.dry)
		if (err == nil) != c.ok {
			t.Errorf("node port %d, dry run %v: got error %v, want none: %v", c.port, c.dry, err, c.ok)
		}
		if err == nil {
			finish(!c.dry)
		}
	}
}
