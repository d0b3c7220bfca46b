package routes

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Whatever two nodes publish, both ends choose the same way: both a route, both the tunnel, or
// none.
//
// row: NET-03
func TestBothNodesChooseTheSameRoute(t *testing.T) {
	cluster := []netip.Prefix{netip.MustParsePrefix("10.71.0.0/16")}
	link := []Segment{{netip.MustParsePrefix("10.1.0.0/16"), false}}
	for _, one := range []Mode{Auto, Direct, VXLAN} { // each pair of nodes that are on one link
		for _, other := range []Mode{Auto, Direct, VXLAN} {
			a, b := node("a", "10.1.0.1", "10.71.0.0/24"), node("b", "10.1.0.2", "10.71.1.0/24")
			a.Reachability = &Reachability{Mode: one, OnLink: link}
			b.Reachability = &Reachability{Mode: other, OnLink: link}
			there := Plan(In{Self: a, Others: []Node{a, b}, Mode: one, Cluster: cluster})
			back := Plan(In{Self: b, Others: []Node{a, b}, Mode: other, Cluster: cluster})
			if len(there.Routes) != 1 || len(back.Routes) != 1 || there.Routes[0].Tunnel != back.Routes[0].Tunnel {
				t.Fatalf("a (%s) takes %+v, b (%s) takes %+v, want the same route", one, there.Routes, other,
					back.Routes)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		say := func(name, address, pods string) Node {
			n := node(name, address, pods)
			w := Reachability{Mode: rapid.SampledFrom([]Mode{Auto, Direct, VXLAN}).Draw(t, name)}
			for range rapid.IntRange(0, 4).Draw(t, "segments of "+name) {
				a := netip.AddrFrom4([4]byte{10, 1, byte(rapid.IntRange(0, 1).Draw(t, "net")),
					byte(rapid.IntRange(0, 9).Draw(t, "host"))})
				w.OnLink = append(w.OnLink,
					Segment{netip.PrefixFrom(a, rapid.SampledFrom([]int{0, 16, 24, 29, 32}).Draw(t, "bits")).Masked(),
						rapid.Bool().Draw(t, "gateway")})
			}
			said, err := ParseReachability(w.String())
			if err != nil || said.String() != w.String() {
				t.Fatalf("%q becomes %q: %v", w, said, err)
			}
			n.Reachability = &said
			return n
		}
		a, b := say("a", "10.1.0.1", "10.71.0.0/24"), say("b", "10.1.0.2", "10.71.1.0/24")
		sees := map[netip.Addr]bool{a.Address: rapid.Bool().Draw(t, "b sees a"),
			b.Address: rapid.Bool().Draw(t, "a sees b")}
		there := Plan(In{Self: a, Others: []Node{a, b}, Mode: a.Reachability.Mode, Cluster: cluster, OnLink: sees})
		back := Plan(In{Self: b, Others: []Node{a, b}, Mode: b.Reachability.Mode, Cluster: cluster, OnLink: sees})
		kind := func(w DesiredState) string {
			if len(w.Routes) == 0 {
				return "none"
			}
			if w.Routes[0].Tunnel != (len(w.TunnelAddresses) > 0) && a.Reachability.Mode != VXLAN &&
				b.Reachability.Mode != VXLAN {
				t.Fatalf("a tunnel without an end, or an end without one: %+v", w)
			}
			return fmt.Sprintf("tunnel %v", w.Routes[0].Tunnel)
		}
		if kind(there) != kind(back) {
			t.Fatalf("a (%s) takes %s, b (%s) takes %s", a.Reachability, kind(there), b.Reachability, kind(back))
		}
	})
}

// A node of an earlier version, which publishes nothing, is reached as this node sees it.
func TestANodeThatSaysNothingIsReachedAsItIsSeen(t *testing.T) {
	cluster := []netip.Prefix{netip.MustParsePrefix("10.71.0.0/16")}
	a, b := node("a", "10.1.0.1", "10.71.0.0/24"), node("b", "10.1.0.2", "10.71.1.0/24")
	a.Reachability = &Reachability{Mode: Auto}
	for _, near := range []bool{true, false} {
		w := Plan(In{Self: a, Others: []Node{b}, Mode: Auto, Cluster: cluster,
			OnLink: map[netip.Addr]bool{b.Address: near}})
		if len(w.Routes) != 1 || w.Routes[0].Tunnel == near {
			t.Errorf("near %v: got %+v, want one of them and [0].Tunnel other than %v", near, w.Routes, near)
		}
	}
}

func TestOnLinkAddressesOfReachability(t *testing.T) {
	w, err := ParseReachability("auto 10.1.0.0/24,!10.1.0.8/29,10.1.0.9/32,fd10::/64")
	if err != nil {
		t.Fatal(err)
	}
	for a, want := range map[string]bool{"10.1.0.1": true, "10.1.0.8": false, "10.1.0.9": true, "10.2.0.1": false,
		"fd10::1": true, "fd11::1": false} {
		if got := w.onLink(netip.MustParseAddr(a)); got != want {
			t.Errorf("%s: got %v, want %v", a, got, want)
		}
	}
	for _, bad := range []string{"", "soon", "auto 10.1.0.0", "auto !"} {
		if _, err := ParseReachability(bad); err == nil || !strings.Contains(err.Error(), ReachabilityAnnotation) {
			t.Errorf("%q: got %v, want an error with %v", bad, err, ReachabilityAnnotation)
		}
	}
	p := netip.MustParsePrefix
	got := segments([]Segment{{p("0.0.0.0/0"), true}, {p("10.1.0.0/24"), true}, {p("10.1.0.0/24"), false},
		{p("10.1.0.8/29"), true}, {p("10.9.0.0/24"), true}, {p("10.1.0.0/24"), false}})
	if text := (Reachability{Mode: Auto, OnLink: got}).String(); text != "auto 10.1.0.0/24,!10.1.0.8/29" {
		t.Errorf("kept: got %q, want %q", text, "auto 10.1.0.0/24,!10.1.0.8/29")
	}
}

func TestConflictingReachabilityIsReported(t *testing.T) {
	for want, says := range map[string]map[string]string{
		"": {"a": "auto 10.0.0.0/24", "b": "vxlan", "c": "auto"},
		"--node-routes is direct on a and vxlan on b, c:": {"a": "direct", "b": "vxlan", "c": "vxlan"},
		"b do not say how":                          {"a": "auto", "b": ""},
		"node b: annotation gantry.dev/node-routes": {"a": "auto", "b": "soon"},
	} {
		got := Disagreements(says)
		if (want == "") != (len(got) == 0) || !slices.ContainsFunc(append(got, want),
			func(s string) bool { return strings.HasPrefix(s, want) }) ||
			want != "" && !strings.HasPrefix(got[0], want) {
			t.Errorf("%v: got %q, want one beginning with %q (none if empty)", says, got, want)
		}
	}
	if got := Disagreements(map[string]string{"a": "", "b": ""}); len(got) != 0 {
		t.Errorf("of nodes on another network: %q", got)
	}
}
