package nodeipam

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func book(t *testing.T, cluster string, s MaskSizes, reserved ...netip.Prefix) *Allocator {
	t.Helper()
	b, err := NewAllocator(cluster, s, reserved...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func text(ps []netip.Prefix) string { return fmt.Sprint(ps) }

// row: NET-03
func TestEveryNodeGetsItsOwnCIDR(t *testing.T) {
	for _, c := range []struct {
		name, cluster string
		sizes         MaskSizes
		reserved      string
		want          []string
	}{
		{"the usual size", "10.244.0.0/16", MaskSizes{}, "", []string{"[10.244.0.0/24]", "[10.244.1.0/24]",
			"[10.244.2.0/24]"}},
		{"two families", "10.244.0.0/16,fd00:1::/56", MaskSizes{}, "",
			[]string{"[10.244.0.0/24 fd00:1::/64]", "[10.244.1.0/24 fd00:1:0:1::/64]"}},
		{"other sizes", "10.0.0.0/8,fd00:1::/112", MaskSizes{IPv4: 12, IPv6: 120}, "",
			[]string{"[10.0.0.0/12 fd00:1::/120]", "[10.16.0.0/12 fd00:1::100/120]"}},
		{"a range of Services inside", "10.96.0.0/14", MaskSizes{IPv4: 16}, "10.96.0.0/15",
			[]string{"[10.98.0.0/16]", "[10.99.0.0/16]"}},
		{"a small range of Services inside", "10.96.0.0/15", MaskSizes{IPv4: 16}, "10.96.7.0/24",
			[]string{"[10.97.0.0/16]"}},
		{"one node", "10.244.3.0/24", MaskSizes{}, "", []string{"[10.244.3.0/24]"}},
	} {
		var reserved []netip.Prefix
		if c.reserved != "" {
			reserved = Parse([]string{c.reserved})
		}
		b := book(t, c.cluster, c.sizes, reserved...)
		for i, want := range c.want {
			if got, err := b.Allocate(fmt.Sprint("n", i)); err != nil || text(got) != want {
				t.Errorf("%s: node %d has %v (%v), want %s", c.name, i, got, err, want)
			}
		}
	}
}

func TestUsedUp(t *testing.T) {
	b := book(t, "10.244.0.0/23", MaskSizes{})
	for _, n := range []string{"a", "b"} {
		if _, err := b.Allocate(n); err != nil {
			t.Fatal(err)
		}
	}
	var full *Exhausted
	if _, err := b.Allocate("c"); !errors.As(err, &full) {
		t.Fatalf("a third part: %v", err)
	}
	b.Release("a")
	if got, err := b.Allocate("c"); err != nil || text(got) != "[10.244.0.0/24]" {
		t.Errorf("after one was given back: %v %v", got, err)
	}
	if again, err := b.Allocate("c"); err != nil || text(again) != "[10.244.0.0/24]" {
		t.Errorf("asked twice: %v %v", again, err)
	}
}

func TestCIDRsOfOthersAreLeftAlone(t *testing.T) {
	b := book(t, "10.244.0.0/22", MaskSizes{})
	b.Occupy("by hand", Parse([]string{"10.244.1.0/25"}))
	b.Occupy("wider", Parse([]string{"10.244.2.0/23", "192.168.0.0/24"}))
	if got, err := b.Allocate("a"); err != nil || text(got) != "[10.244.0.0/24]" {
		t.Errorf("got %v %v, want no error and text(got) [10.244.0.0/24]", got, err)
	}
	if got, err := b.Allocate("b"); err == nil {
		t.Errorf("got %v of a range in use", got)
	}
	b.Occupy("by hand", nil)
	if got, err := b.Allocate("b"); err != nil || text(got) != "[10.244.1.0/24]" {
		t.Errorf("got %v %v, want no error and text(got) [10.244.1.0/24]", got, err)
	}
}

// row: OPS-11
func TestPassedCIDRsAreCounted(t *testing.T) {
	b := book(t, "10.244.0.0/22", MaskSizes{})
	b.Occupy("c", Parse([]string{"10.244.2.0/24"}))
	for _, n := range []string{"a", "b", "d"} {
		if _, err := b.Allocate(n); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := b.Ranges[0].counts.Tries, []int{0, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("got passed CIDRs %v, want %v", got, want)
	}
}

func TestSettingsThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		cluster string
		sizes   MaskSizes
		want    string
	}{
		{"", MaskSizes{},
			`cluster range "": netip.ParsePrefix(""): no '/'; write it like 10.244.0.0/16 in --cluster-cidr`},
		{"10.0.0.0/16,10.1.0.0/16", MaskSizes{},
			`cluster ranges "10.0.0.0/16,10.1.0.0/16": one range, or one IPv4 and one IPv6 range in --cluster-cidr`},
		{"10.0.0.0/25", MaskSizes{},
			"a node's part of 10.0.0.0/25 cannot be a /24: it must be smaller than the whole; correct " +
				"--node-cidr-mask-size-ipv4"},
		{"fd00::/32", MaskSizes{},
			"fd00::/32 in parts of /64: the cluster's range may have at most 16 bits fewer than a node's; correct " +
				"--cluster-cidr or --node-cidr-mask-size-ipv6"},
		{"10.0.0.0/16", MaskSizes{IPv4: 30},
			"a node's part of 10.0.0.0/16 cannot be a /30: at least 3 bits must be free; correct " +
				"--node-cidr-mask-size-ipv4"},
	} {
		if _, err := NewAllocator(c.cluster, c.sizes); err == nil || err.Error() != c.want {
			t.Errorf("%s %v: got %v, want error %v", c.cluster, c.sizes, err, c.want)
		}
	}
}

// Whatever nodes come and go, and however often the allocator is rebuilt from Nodes: no two nodes
// share an address.
//
// row: NET-03
func TestNoCIDRIsAllocatedTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const cluster = "10.244.0.0/20,fd00::/60"
		b, err := NewAllocator(cluster, MaskSizes{})
		if err != nil {
			t.Fatal(err)
		}
		nodes := map[string][]netip.Prefix{}
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o",
			"p", "q", "r"})
		t.Repeat(map[string]func(*rapid.T){
			"grant": func(t *rapid.T) {
				n := name.Draw(t, "node")
				got, err := b.Allocate(n)
				if err != nil {
					if len(nodes) < 16 {
						t.Fatalf("%d of 16 parts used: %v", len(nodes), err)
					}
					return
				}
				if was, ok := nodes[n]; ok && !slices.Equal(was, got) {
					t.Fatalf("%s had %v, now %v", n, was, got)
				}
				nodes[n] = got
			},
			"release": func(t *rapid.T) { n := name.Draw(t, "node"); b.Release(n); delete(nodes, n) },
			"restart": func(t *rapid.T) {
				if b, err = NewAllocator(cluster, MaskSizes{}); err != nil {
					t.Fatal(err)
				}
				for n, ranges := range nodes {
					b.Occupy(n, ranges)
				}
			},
			"": func(t *rapid.T) {
				for n, mine := range nodes {
					for m, theirs := range nodes {
						if n != m && (mine[0].Overlaps(theirs[0]) || mine[1].Overlaps(theirs[1])) {
							t.Fatalf("%s has %v, %s has %v", n, mine, m, theirs)
						}
					}
				}
			},
		})
	})
}
