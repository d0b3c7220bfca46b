package ipam

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var small = netip.MustParsePrefix("10.0.0.0/29")

func TestPortsCollide(t *testing.T) {
	p := func(ip string, port uint16, proto string) Port {
		out := Port{HostPort: port, Protocol: proto}
		if ip != "" {
			out.HostIP = netip.MustParseAddr(ip)
		}
		return out
	}
	for _, c := range []struct {
		a, b Port
		want bool
	}{
		{p("", 80, "tcp"), p("", 80, "tcp"), true},
		{p("", 80, "tcp"), p("", 80, "udp"), false},
		{p("", 80, "tcp"), p("", 81, "tcp"), false},
		{p("127.0.0.1", 80, "tcp"), p("192.0.2.1", 80, "tcp"), false},
		{p("127.0.0.1", 80, "tcp"), p("127.0.0.1", 80, "tcp"), true},
		{p("127.0.0.1", 80, "tcp"), p("", 80, "tcp"), true},
		{p("0.0.0.0", 80, "tcp"), p("192.0.2.1", 80, "tcp"), true},
	} {
		if c.a.Collides(c.b) != c.want || c.b.Collides(c.a) != c.want {
			t.Errorf("%s and %s collide: want %v", c.a, c.b, c.want)
		}
	}
}

func TestReleasedAddressIsNotReusedAtOnce(t *testing.T) {
	var b Allocations
	for i, want := range []string{"10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.2", "10.0.0.3"} {
		l, err := b.Allocate(Lease{Container: fmt.Sprint(i)}, []netip.Prefix{small})
		if err != nil || l.IPs[0].String() != want {
			t.Fatalf("lease %d: %v, %v; want %s", i, l.IPs, err, want)
		}
		b.Release(l.Container, "")
	}
}

// Whatever is taken and dropped, in whatever order: no address twice, none outside the range, the
// gateway never, and a refusal only when all are in use; of each family one. What is held is the
// test's own account, so that a release of too much or too little shows.
//
// row: NET-03
func TestAddressesAreUniqueWhateverHappens(t *testing.T) {
	ranges := []netip.Prefix{small, netip.MustParsePrefix("fd00::/124")}
	rapid.Check(t, func(t *rapid.T) {
		var b Allocations
		holder, held := map[netip.Addr]string{}, map[string][]netip.Addr{} // by sandbox and interface
		for i := range 60 {
			if len(held) > 0 && rapid.Bool().Draw(t, "drop") {
				who := rapid.SampledFrom(slices.Sorted(maps.Keys(held))).Draw(t, "which")
				sandbox, iface, _ := strings.Cut(who, " ")
				b.Release(sandbox, iface)
				for _, ip := range held[who] {
					delete(holder, ip)
				}
				delete(held, who)
				continue
			}
			if free := b.Free(ranges[:1]); int(free) != 5-len(held) {
				t.Fatalf("%v free with %d of 5 in use", free, len(held))
			}
			sandbox, iface := fmt.Sprint(i/2), []string{"eth0", "eth1"}[i%2]
			l, err := b.Allocate(Lease{Container: sandbox, Interface: iface}, ranges)
			if err != nil {
				if len(held) != 5 {
					t.Fatalf("refused with %d of 5 in use: %v", len(held), err)
				}
				continue
			}
			if len(l.IPs) != len(ranges) {
				t.Fatalf("%d got %v, want an address of each of %v", i, l.IPs, ranges)
			}
			for n, ip := range l.IPs {
				if other, taken := holder[ip]; taken || !isAllocatable(ranges[n], ip) || ip == Gateway(ranges[n]) {
					t.Fatalf("%s for %d (held by %q)", ip, i, other)
				}
				holder[ip] = sandbox + " " + iface
			}
			held[sandbox+" "+iface] = l.IPs
		}
	})
}

func TestStoreForgetsAnotherBootAndKeepsThisOne(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	take := func(b *Allocations) error {
		_, err := b.Allocate(Lease{Container: "a"}, []netip.Prefix{small})
		return err
	}
	if err := s.Update(take); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(take); err == nil {
		t.Fatal("the same attachment was leased twice")
	}
	allocations, err := s.View()
	if err != nil || len(allocations.Leases) != 1 {
		t.Fatalf("view: got %v, %v, want no error and Leases of length 1", allocations, err)
	}
	file := filepath.Join(s.Dir, "leases.json")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"another boot": strings.Replace(string(raw), allocations.Boot,
		"other", 1), "cut off long ago": "{\"bo", "empty": ""} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if allocations, err := s.View(); err != nil || len(allocations.Leases) != 0 {
			t.Errorf("%s: got %v, %v, want no error and no Leases", name, allocations, err)
		}
	}
	if err := os.WriteFile(file, raw[:len(raw)-3], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.View(); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("a book damaged in this boot: %v", err)
	}
}
