package routes

import (
	"fmt"
	"net/netip"
	"testing"
)

func node(name, address string, ranges ...string) Node {
	n := Node{Name: name, VTEP: MAC(name)}
	if address != "" {
		n.Address = netip.MustParseAddr(address)
	}
	for _, r := range ranges {
		n.Ranges = append(n.Ranges, netip.MustParsePrefix(r))
	}
	return n
}

func TestRoutePlanByReachability(t *testing.T) {
	cluster := []netip.Prefix{netip.MustParsePrefix("10.71.0.0/16"), netip.MustParsePrefix("fd71::/48")}
	self := node("a", "10.171.1.1", "10.71.0.0/24", "fd71::/64")
	near, far := node("b", "10.171.1.2", "10.71.1.0/24"), node("c", "10.171.2.3", "10.71.2.0/24")
	both := node("d", "10.171.1.4", "10.71.3.0/24", "fd71:0:0:3::/64")
	known := both // by both families
	known.OtherAddress = netip.MustParseAddr("fd10:171:1::4")
	plain := far
	plain.VTEP = nil
	for _, c := range []struct {
		name   string
		mode   Mode
		others []Node
		want   string // ranges, gateways and whether through the tunnel
		ends   string
	}{
		{"alone", Auto, []Node{self}, "[]", "[]"},
		{"on the segment", Auto, []Node{near, self}, "[{10.71.1.0/24 10.171.1.2 false}]", "[]"},
		{"elsewhere", Auto, []Node{far, near}, "[{10.71.1.0/24 10.171.1.2 false} {10.71.2.0/24 10.71.2.0 true}]",
			"[10.71.0.0 fd71::]"},
		{"elsewhere, without an end", Auto, []Node{plain}, "[]", "[]"},
		{"everything through the tunnel", VXLAN, []Node{near}, "[{10.71.1.0/24 10.71.1.0 true}]", "[10.71.0.0 fd71::]"},
		{"nothing through the tunnel", Direct, []Node{far, near}, "[{10.71.1.0/24 10.171.1.2 false}]", "[]"},
		{"IPv6 Pods of nodes that know each other by IPv4", Auto, []Node{both},
			"[{10.71.3.0/24 10.171.1.4 false} {fd71:0:0:3::/64 fd71:0:0:3:: true}]", "[10.71.0.0 fd71::]"},
		{"nodes that know each other by both families", Auto, []Node{known},
			"[{10.71.3.0/24 10.171.1.4 false} {fd71:0:0:3::/64 fd10:171:1::4 false}]", "[]"},
		{"no range yet", Auto, []Node{node("e", "10.171.1.5")}, "[]", "[]"},
		{"no address yet", Auto, []Node{node("e", "", "10.71.5.0/24")}, "[]", "[]"},
		{"a range outside the cluster's", Auto, []Node{node("e", "10.171.1.5", "10.0.0.0/8"),
			node("f", "10.171.1.6", "192.168.0.0/24")}, "[]", "[]"},
		{"a range that is ours", Auto, []Node{node("0", "10.171.1.5", "10.71.0.0/24")}, "[]", "[]"},
		{"a range claimed twice", Auto, []Node{node("z", "10.171.1.5", "10.71.1.0/24"), near},
			"[{10.71.1.0/24 10.171.1.2 false}]", "[]"},
		{"a new Node of this machine", Auto, []Node{node("e", "10.171.1.1", "10.71.5.0/24")}, "[]", "[]"},
	} {
		in := In{Self: self, Others: c.others, Mode: c.mode, Cluster: cluster, OnLink: map[netip.Addr]bool{}}
		for _, n := range c.others {
			if n.Address.IsValid() && netip.MustParsePrefix("10.171.1.0/24").Contains(n.Address) {
				in.OnLink[n.Address], in.OnLink[n.OtherAddress] = true, n.OtherAddress.IsValid()
			}
		}
		w := Plan(in)
		if got := fmt.Sprint(w.Routes); got != c.want {
			t.Errorf("%s: routes %s, want %s", c.name, got, c.want)
		}
		if got := fmt.Sprint(w.TunnelAddresses); got != c.ends {
			t.Errorf("%s: own ends %s, want %s", c.name, got, c.ends)
		}
		tunnels := 0
		for _, r := range w.Routes {
			if r.Tunnel {
				tunnels++
			}
		}
		if len(w.Neighbours) != tunnels {
			t.Errorf("%s: %d neighbours for %d tunnels", c.name, len(w.Neighbours), tunnels)
		}
	}
}

func TestNumbersOfClustersDiffer(t *testing.T) {
	a, b := VNI([]netip.Prefix{netip.MustParsePrefix("10.71.0.0/16")}),
		VNI([]netip.Prefix{netip.MustParsePrefix("10.72.0.0/16")})
	if a == b || a < 1 || a > 0xffffff {
		t.Errorf("%d and %d", a, b)
	}
	if m := MAC("a"); m[0]&3 != 2 || m.String() == MAC("b").String() {
		t.Errorf("%s must be of one machine and locally given", m)
	}
}
