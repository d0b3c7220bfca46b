package services

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// fakeNodePortStorage is a map of ports in memory.
type fakeNodePortStorage struct {
	mu   sync.Mutex
	held *PortMap
}

func (s *fakeNodePortStorage) Allocate(_ context.Context, ports []int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range ports {
		if s.held.Has(n) {
			return PortAllocatedError(n)
		}
	}
	for _, n := range ports {
		s.held.Set(n, true)
	}
	return nil
}

func (s *fakeNodePortStorage) Release(_ context.Context, ports []int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range ports {
		s.held.Set(n, false)
	}
	return nil
}

// Whatever two servers over one store give and take back: no address and no port is held twice,
// none is lost, and one that the other gave back can be had.
func TestTwoServersShareAddressesAndPorts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var live []*v1.Service
		stored := func(context.Context) ([]v1.Service, error) {
			var out []v1.Service
			for _, s := range live {
				out = append(out, *s)
			}
			return out, nil
		}
		b := &fakeIPAddressStorage{entries: map[string]string{}}
		s := &fakeNodePortStorage{}
		var servers []*Allocator
		for range 2 {
			a := allocator(t, "10.0.0.0/29")
			a.listServices = stored
			a.UseIPAddressStorage(b, nil)
			s.held = a.NewPortMap(nil)
			a.UseNodePortStorage(s)
			servers = append(servers, a)
		}
		count := 0
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			at := servers[rapid.IntRange(0, 1).Draw(rt, "server")]
			if len(live) > 0 && rapid.Bool().Draw(rt, "delete") {
				i := rapid.IntRange(0, len(live)-1).Draw(rt, "which")
				gone := live[i]
				live = slices.Delete(live, i, i+1)
				at.releaseAll(gone)
				continue
			}
			count++
			n := service(nodePort)
			n.Name = string(rune('a' + count))
			if rapid.Bool().Draw(rt, "asked") {
				n.Spec.Ports[0].NodePort = int32(rapid.IntRange(30000, 30003).Draw(rt, "port"))
			}
			full := len(live) == 6 || slices.ContainsFunc(live,
				func(o *v1.Service) bool { return o.Spec.Ports[0].NodePort == n.Spec.Ports[0].NodePort })
			err := create(at, n)
			if (err != nil) != full {
				rt.Fatalf("with %d Services, asked for %d: %v", len(live), n.Spec.Ports[0].NodePort, err)
			}
			if err == nil {
				live = append(live, n)
			}
		}
		ips, ports := map[string]bool{}, map[int32]bool{}
		for _, s := range live {
			ips[s.Spec.ClusterIP], ports[s.Spec.Ports[0].NodePort] = true, true
		}
		if len(ips) != len(live) || len(ports) != len(live) || len(b.entries) != len(live) ||
			len(s.held.All()) != len(live) {
			rt.Fatalf("%d Services have %d addresses and %d ports; written down are %v and %v", len(live), len(ips),
				len(ports), b.entries, s.held.All())
		}
	})
}

func TestRepairNodePorts(t *testing.T) {
	now := time.Now()
	with := func(name string, port int32) v1.Service {
		return v1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.ServiceSpec{Type: v1.ServiceTypeNodePort,
			Ports: []v1.ServicePort{{NodePort: port}, {NodePort: port, Protocol: v1.ProtocolUDP}}}}
	}
	a := allocator(t, "10.0.0.0/29")
	m := a.NewPortMap(nil)
	for _, n := range []int{30000, 30003, 30004} {
		m.Set(n, true)
	}
	if m = a.ReadPortMap(m.Stored()); m == nil || !slices.Equal(m.All(), []int{30000, 30003, 30004}) {
		t.Fatalf("read back: %v", m)
	}
	all := []v1.Service{with("a", 30000), with("twin", 30000), with("b", 30002), with("far", 31000)}
	r := RepairNodePorts(all, m, map[int]time.Time{30003: now.Add(-time.Hour), 30002: now.Add(-time.Hour)}, now)
	if !slices.Equal(r.Allocate, []int{30002}) || !slices.Equal(r.Release, []int{30003}) || len(r.Leaked) != 1 ||
		!r.Leaked[30004].Equal(now) {
		t.Errorf("got %+v, want Allocate %v, Release %v, 1 in Leaked and Leaked[30004] %v", r, []int{30002},
			[]int{30003}, now)
	}
	expectFindings(t, r.Findings, []string{
		"twin PortAlreadyAllocated Port 30000 was assigned to multiple services; please recreate service",
		"b PortNotAllocated Port 30002 is not allocated; repairing",
		"far PortOutOfRange Port 31000 is not within the port range 30000-30010; please recreate service",
	})
	if r = RepairNodePorts(all, m, r.Leaked, now.Add(leakGracePeriod/2)); len(r.Release) != 0 || !r.Leaked[30004].Equal(
		now) {
		t.Errorf("too early: %+v", r)
	}
}
