package lease

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
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

func TestAnAddressRestsBeforeItIsUsedAgain(t *testing.T) {
	var b Book
	for i, want := range []string{"10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.2", "10.0.0.3"} {
		l, err := b.Take(Lease{Container: fmt.Sprint(i)}, []netip.Prefix{small})
		if err != nil || l.IPs[0].String() != want {
			t.Fatalf("lease %d: %v, %v; want %s", i, l.IPs, err, want)
		}
		b.Drop(l.Container, "")
	}
}

// Whatever is taken and dropped: no address twice, none outside the range, the gateway never, and a refusal only when all are in use.
func TestAddressesAreUniqueWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Book
		held := map[netip.Addr]string{}
		for i := range 60 {
			if len(held) > 0 && rapid.Bool().Draw(t, "drop") {
				ip := rapid.SampledFrom(b.Leases).Draw(t, "which").IPs[0]
				b.Drop(held[ip], "")
				delete(held, ip)
				continue
			}
			if free := b.Free([]netip.Prefix{small}); int(free) != 5-len(held) {
				t.Fatalf("%v free with %d of 5 in use", free, len(held))
			}
			l, err := b.Take(Lease{Container: fmt.Sprint(i)}, []netip.Prefix{small})
			if err != nil {
				if len(held) != 5 {
					t.Fatalf("refused with %d of 5 in use: %v", len(held), err)
				}
				continue
			}
			ip := l.IPs[0]
			if other, taken := held[ip]; taken || !usable(small, ip) || ip == Gateway(small) {
				t.Fatalf("%s for %d (held by %q)", ip, i, other)
			}
			held[ip] = l.Container
		}
	})
}

func TestStoreForgetsAnotherBootAndKeepsThisOne(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	take := func(b *Book) error { _, err := b.Take(Lease{Container: "a"}, []netip.Prefix{small}); return err }
	if err := s.Change(take); err != nil {
		t.Fatal(err)
	}
	if err := s.Change(take); err == nil {
		t.Fatal("the same attachment was leased twice")
	}
	book, err := s.View()
	if err != nil || len(book.Leases) != 1 {
		t.Fatalf("view: %v, %v", book, err)
	}
	file := filepath.Join(s.Dir, "leases.json")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"another boot": strings.Replace(string(raw), book.Boot, "other", 1), "cut off long ago": "{\"bo", "empty": ""} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if book, err := s.View(); err != nil || len(book.Leases) != 0 {
			t.Errorf("%s: %v, %v", name, book, err)
		}
	}
	if err := os.WriteFile(file, raw[:len(raw)-3], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.View(); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("a book damaged in this boot: %v", err)
	}
}
