package routes

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/netns"
)

// testLAN is two nodes on one segment and a third behind a router, each with a Pod's address on a
// bridge of its own.
type testLAN struct {
	t     *testing.T
	nodes map[string]ns.NetNS
	all   []Node
	links *Router
}

func newTestLAN(t *testing.T) *testLAN {
	t.Helper()
	if os.Geteuid() != 0 || os.Getenv("GANTRY_NO_CONTAINERS") != "" {
		t.Skip("needs root: makes network namespaces")
	}
	l := &testLAN{t: t, nodes: map[string]ns.NetNS{},
		links: &Router{ID: "0badcafe", Cluster: []netip.Prefix{netip.MustParsePrefix("10.71.0.0/16")}}}
	for _, name := range []string{"a", "b", "c", "router"} {
		l.nodes[name] = netns.New(t)
	}
	l.sh("router",
		`sysctl -qw net.ipv4.ip_forward=1; ip link set lo up; ip link add br1 type bridge;
		ip addr add 10.171.1.254/24 dev br1; ip link set br1 up
		ip link add br2 type bridge; ip addr add 10.171.2.254/24 dev br2; ip link set br2 up`)
	for i, name := range []string{"a", "b", "c"} {
		segment := 1 + i/2
		l.sh("router", fmt.Sprintf("ip link add to-%s type veth peer name up-%s; ip link set to-%s master br%d up",
			name, name, name, segment))
		l.move("up-"+name, "router", name)
		l.sh(name, fmt.Sprintf(
			`sysctl -qw net.ipv4.ip_forward=1; ip link set lo up; ip addr add 10.171.%d.%d/24 dev up-%s;
			ip link set up-%s up; ip route add default via 10.171.%d.254
			ip link add pods type bridge; ip addr add 10.71.%d.1/24 dev pods; ip link set pods up`, segment, i+1, name,
			name, segment, i))
		l.all = append(l.all, node(name, fmt.Sprintf("10.171.%d.%d", segment, i+1), fmt.Sprintf("10.71.%d.0/24", i)))
	}
	return l
}

func (l *testLAN) sh(name, script string) string {
	l.t.Helper()
	return netns.MustRun(l.t, l.nodes[name], script)
}

func (l *testLAN) move(link, from, to string) {
	l.t.Helper()
	path := l.nodes[to].Path()
	l.sh(from, fmt.Sprintf("ip link set %s netns %s", link, path))
}

// apply has a node do what Plan says.
func (l *testLAN) apply(name string, mode Mode, others ...Node) DesiredState {
	l.t.Helper()
	self := l.all[slices.IndexFunc(l.all, func(n Node) bool { return n.Name == name })]
	var w DesiredState
	err := l.nodes[name].Do(func(ns.NetNS) error {
		var addrs []netip.Addr
		for _, n := range others {
			addrs = append(addrs, n.Address)
		}
		w = Plan(In{Self: self, Others: others, Mode: mode, Cluster: l.links.Cluster, OnLink: l.links.OnLink(addrs)})
		return l.links.Apply(w, self)
	})
	if err != nil {
		l.t.Fatalf("%s: got error %v, want none", name, err)
	}
	return w
}

func (l *testLAN) reach(from, to string) {
	l.t.Helper()
	source := l.all[slices.IndexFunc(l.all, func(n Node) bool { return n.Name == from })].Ranges[0].Addr().Next()
	target := l.all[slices.IndexFunc(l.all, func(n Node) bool { return n.Name == to })].Ranges[0].Addr().Next()
	var listener net.Listener
	err := l.nodes[to].Do(func(ns.NetNS) (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(target, 0).String())
		return err
	})
	if err != nil {
		l.t.Fatalf("%s: got error %v, want none", to, err)
	}
	defer listener.Close()
	err = l.nodes[from].Do(func(ns.NetNS) error {
		dialer := net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: source.AsSlice()}}
		c, err := dialer.Dial("tcp", listener.Addr().String())
		if err != nil {
			return err
		}
		return c.Close()
	})
	if err != nil {
		l.t.Errorf("from %s to %s: %v, want no error", from, to, err)
	}
}

func TestPodsOfOtherNodes(t *testing.T) {
	for _, mode := range []Mode{Auto, VXLAN} {
		t.Run(string(mode), func(t *testing.T) {
			l := newTestLAN(t)
			for _, name := range []string{"a", "b", "c"} {
				for range 2 { // the second time nothing changes
					l.apply(name, mode, l.all...)
				}
			}
			tunnel := l.sh("a", "ip -o link show type vxlan | wc -l; ip route show proto 0x47")
			if direct := strings.Contains(tunnel, "10.71.1.0/24 via 10.171.1.2 dev up-a"); direct != (mode == Auto) ||
				!strings.Contains(tunnel, "10.71.2.0/24 via 10.71.2.0 dev gv0badcafe onlink") {
				t.Errorf("routes of a:\n%s", tunnel)
			}
			if mtu := l.sh("a",
				"cat /sys/class/net/gv0badcafe/mtu 2>/dev/null || ip -o link show gv0badcafe"); !strings.Contains(mtu,
				"1450") {
				t.Errorf("MTU of the tunnel: got %s, want it to contain %q", mtu, "1450")
			}
			for _, pair := range [][2]string{{"a", "b"}, {"b", "a"}, {"a", "c"}, {"c", "b"}} {
				l.reach(pair[0], pair[1])
			}
			// A node goes: its routes and entries go, the others' stay.
			l.apply("a", mode, l.all[0], l.all[1])
			if left := l.sh("a",
				"ip route show proto 0x47; ip neigh show dev gv0badcafe 2>/dev/null || true; bridge fdb show dev "+
					"gv0badcafe 2>/dev/null || true"); strings.Contains(left, "10.71.2.0") || strings.Contains(left,
				MAC("c").String()) || !strings.Contains(left, "10.71.1.0") {
				t.Errorf("after c went:\n%s", left)
			}
			l.reach("a", "b")
			for _, name := range []string{"a", "b", "c"} {
				l.apply(name, Direct)
				if left := l.sh(name, "ip route show proto 0x47; ip -o link show type vxlan"); left != "" {
					t.Errorf("%s has left:\n%s", name, left)
				}
			}
		})
	}
}

func TestLinkDownAndUp(t *testing.T) {
	l := newTestLAN(t)
	for _, name := range []string{"a", "b"} {
		l.apply(name, Auto, l.all[:2]...)
	}
	err := l.nodes["a"].Do(func(ns.NetNS) error {
		signal, err := WatchLinks(t.Context())
		if err != nil {
			return err
		}
		l.sh("a", "ip link set up-a down")
		<-signal
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if left := l.sh("a", "ip route show proto 0x47"); left != "" {
		t.Fatalf("the kernel kept %s, want none", left)
	}
	l.sh("a", "ip link set up-a up; ip route replace default via 10.171.1.254")
	l.apply("a", Auto, l.all[:2]...)
	l.reach("a", "b")
}

// A route of others that comes or goes is followed, as both ends of a path choose by what each says
// of its routes.
func TestRoutesOfOthersAreFollowed(t *testing.T) {
	l := newTestLAN(t)
	l.sh("a", "sysctl -qw net.ipv6.conf.all.disable_ipv6=1") // its addresses are announced seconds later
	err := l.nodes["a"].Do(func(ns.NetNS) error {
		signal, err := WatchLinks(t.Context())
		if err != nil {
			return err
		}
		for _, change := range []string{"add", "del"} {
			drain(signal)
			l.sh("a", "ip route "+change+" 10.171.1.2/32 via 10.171.1.254")
			select {
			case <-signal:
			case <-time.After(expect.Patience(time.Minute)):
				t.Errorf("%s a route: got no signal, want one", change)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// drain takes what the links of a new network still signal, until nothing came for a while.
func drain(signal <-chan struct{}) {
	for {
		select {
		case <-signal:
		case <-time.After(200 * time.Millisecond):
			return
		}
	}
}

func TestRoutesOfOthers(t *testing.T) {
	for _, c := range []struct {
		route netlink.Route
		want  bool
	}{
		{netlink.Route{Protocol: unix.RTPROT_BOOT, Type: unix.RTN_UNICAST}, true},
		{netlink.Route{Protocol: unix.RTPROT_KERNEL, Type: unix.RTN_UNICAST}, true},
		{netlink.Route{Protocol: unix.RTPROT_KERNEL, Type: unix.RTN_LOCAL}, false},
		{netlink.Route{Protocol: routeProtocol, Type: unix.RTN_UNICAST}, false},
	} {
		if got := isForeignRoute(c.route); got != c.want {
			t.Errorf("protocol %d, type %d: got %v, want %v", c.route.Protocol, c.route.Type, got, c.want)
		}
	}
}
