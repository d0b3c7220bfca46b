package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	networkingv1 "k8s.io/api/networking/v1"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/networkpolicy"
	"github.com/gantry-project/gantry/internal/networkpolicy/rules"
	"github.com/gantry-project/gantry/test/netns"
)

// netnsPod is somewhere a probe starts or ends.
type netnsPod struct {
	ns  ns.NetNS
	ips []netip.Addr
}

// fixture is a node with the cluster's Pods, each answering on the ports that probes ask, and a
// host beyond.
type fixture struct {
	t      testing.TB
	places map[string]netnsPod
	table  *networkpolicy.Table
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	if os.Geteuid() != 0 || os.Getenv("GANTRY_NO_CONTAINERS") != "" {
		t.Skip("needs root: makes network namespaces")
	}
	w := &fixture{t: t, places: map[string]netnsPod{}}
	w.places["node"] = netnsPod{ns: netns.New(t)}
	w.sh("node",
		"ip link set lo up; sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 "+
			"net.ipv6.conf.default.accept_dad=0")
	// Conversations are followed from the beginning, as on a node with Gantry's own network.
	w.sh("node", "nft add table inet follow '{ chain c { type filter hook forward priority 0; ct state invalid "+
		"counter; }; }'")
	for _, p := range cluster().Pods {
		w.join(p.Namespace+"/"+p.Name, "v"+p.Namespace+p.Name, p.IPs)
	}
	w.join("world", "vworld", []netip.Addr{netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("2001:db8::9")})
	for name, p := range w.places {
		if name != "node" {
			w.answer(name, p)
		}
	}
	w.onNode("node", func() error {
		var err error
		w.table, err = networkpolicy.Open("gantry_policy_test")
		return err
	})
	return w
}

func (w *fixture) onNode(name string, f func() error) {
	w.t.Helper()
	if err := w.places[name].ns.Do(func(ns.NetNS) error { return f() }); err != nil {
		w.t.Fatalf("%s: got error %v, want none", name, err)
	}
}

func (w *fixture) sh(name, script string) {
	w.t.Helper()
	netns.MustRun(w.t, w.places[name].ns, script)
}

// join gives a place its addresses and the node a route to each.
func (w *fixture) join(name, link string, ips []netip.Addr) {
	p := netnsPod{netns.New(w.t), ips}
	w.places[name] = p
	w.sh("node",
		fmt.Sprintf(
			`ip link add %s type veth peer name eth0 netns %s; ip addr add 169.254.1.1/32 dev %s;
		ip addr add fe80::1/64 dev %s nodad; ip link set %s up
		ip route add %s dev %s; ip -6 route add %s dev %s`, link, p.ns.Path(), link, link, link, ips[0], link, ips[1],
			link))
	w.sh(name, fmt.Sprintf(
		`sysctl -qw net.ipv6.conf.eth0.accept_dad=0; ip link set lo up; ip addr add %s/32 dev eth0;
		ip addr add %s/128 dev eth0 nodad; ip link set eth0 up
		ip route add 169.254.1.1 dev eth0 scope link; ip route add default via 169.254.1.1;
		ip -6 route add default via fe80::1 dev eth0`, ips[0], ips[1]))
}

// answer listens on every port that a probe asks this place for.
func (w *fixture) answer(name string, p netnsPod) {
	for _, probe := range probes {
		to, what, _ := strings.Cut(probe[strings.Index(probe, ">")+1:], ":")
		if to != name {
			continue
		}
		proto, port, _ := strings.Cut(what, ":")
		w.onNode(name, func() error {
			if proto == "udp" {
				c, err := net.ListenPacket("udp", ":"+port)
				if err != nil {
					return nil // another probe's, the same
				}
				w.t.Cleanup(func() { c.Close() })
				go func() {
					b := make([]byte, 16)
					for {
						n, from, err := c.ReadFrom(b)
						if err != nil {
							return
						}
						_, _ = c.WriteTo(b[:n], from)
					}
				}()
				return nil
			}
			l, err := net.Listen("tcp", ":"+port)
			if err != nil {
				return nil
			}
			w.t.Cleanup(func() { l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go func() { // echoes until the other side closes
						b := make([]byte, 16)
						for {
							n, err := c.Read(b)
							if err != nil {
								c.Close()
								return
							}
							_, _ = c.Write(b[:n])
						}
					}()
				}
			}()
			return nil
		})
	}
}

// udpDials counts UDP conversations, so that each has a source port of its own: the kernel tracks
// one for 30 s after its end, and a port that comes again goes on with what was allowed then.
var udpDials atomic.Int32

// dial opens a connection, and reads its first echo.
func (w *fixture) dial(probe string, family int, patience time.Duration) (net.Conn, error) {
	from, rest, _ := strings.Cut(probe, ">")
	parts := strings.Split(rest, ":")
	to := net.JoinHostPort(w.places[parts[0]].ips[family].String(), parts[2])
	var c net.Conn
	dialer := net.Dialer{Timeout: patience}
	if parts[1] == "udp" {
		dialer.LocalAddr = &net.UDPAddr{Port: 20000 + int(udpDials.Add(1))}
	}
	err := w.places[from].ns.Do(func(ns.NetNS) (err error) {
		c, err = dialer.Dial(parts[1], to)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := echo(c, patience); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func echo(c net.Conn, patience time.Duration) error {
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte("hello")); err != nil {
		return err
	}
	_, err := c.Read(make([]byte, 16))
	return err
}

// Patience with what must come is long, with what must not is short: a slow machine then never
// fails the test.
const long, short = 10 * time.Second, 150 * time.Millisecond

func (w *fixture) check(c aCase) {
	w.t.Helper()
	var wg sync.WaitGroup
	for _, probe := range probes {
		for family := range 2 {
			wg.Go(func() {
				allowed, patience := c.allows(probe), short
				if allowed {
					patience = long
				}
				conn, err := w.dial(probe, family, patience)
				if err == nil {
					conn.Close()
				}
				if allowed && err != nil {
					w.t.Errorf("%s: %s (IPv%d) does not get through: %v", c.name, probe, 4+2*family, err)
				} else if !allowed && err == nil {
					w.t.Errorf("%s: %s (IPv%d) gets through", c.name, probe, 4+2*family)
				}
			})
		}
	}
	wg.Wait()
}

func (w *fixture) set(c aCase, t *testing.T) {
	w.t.Helper()
	w.onNode("node", func() error { return w.table.Set(context.Background(), rules.Build(c.rulesInput(t))) })
}

func TestCasesInTheKernel(t *testing.T) {
	w := newFixture(t)
	for _, c := range cases {
		w.set(c, t)
		w.check(c)
	}
}

// A connection that was allowed when it began goes on; its replies come back whatever the client's
// own ingress says.
func TestConversationsGoOn(t *testing.T) {
	w := newFixture(t)
	conn, err := w.dial("x/db>x/web:tcp:80", 0, long)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	both := aCase{"both",
		`{metadata: {namespace: x, name: d}, spec: {podSelector: {}, policyTypes: [Ingress, Egress]}}`, ""}
	w.set(both, t)
	if err := echo(conn, long); err != nil {
		t.Errorf("a conversation that had begun: %v, want no error", err)
	}
	if c, err := w.dial("x/db>x/web:tcp:80", 0, short); err == nil {
		c.Close()
		t.Error("a new one got through")
	}
}

// A table that somebody took away is seen and comes back.
func TestTableIsPutRight(t *testing.T) {
	w := newFixture(t)
	c := cases[1]
	w.set(c, t)
	w.sh("node", "nft flush ruleset")
	w.onNode("node", func() error {
		if !w.table.Verify(t.Context()) {
			t.Error("an empty kernel passes for a whole table")
		}
		return w.table.Set(t.Context(), rules.Build(c.rulesInput(t)))
	})
	w.check(c)
	w.onNode("node", func() error {
		if w.table.Verify(t.Context()) {
			t.Error("a whole table passes for broken")
		}
		return w.table.Remove(t.Context())
	})
	w.check(cases[0])
}

// No policy that the API takes is refused by the kernel, nor are any two one after the other.
func TestKernelTakesEveryPolicy(t *testing.T) {
	w := newFixture(t)
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		in := cluster()
		block := rapid.SampledFrom([]string{"0.0.0.0/0", "10.0.0.0/8", "10.1.2.3/16", "10.199.0.10/32", "::/0",
			"fd00::/8", "fd00::1/128", "192.168.0.0/31"})
		label := rapid.SampledFrom([]string{"app", "tier", "a.b/c"})
		for range rapid.IntRange(1, 3).Draw(t, "policies") {
			port := rapid.Int32Range(1, 65535).Draw(t, "port")
			in.Policies = append(in.Policies, fuzzed(block.Draw(t, "cidr"), block.Draw(t, "except"),
				label.Draw(t, "key"), rapid.SampledFrom([]string{"web", "db", ""}).Draw(t, "value"),
				rapid.SampledFrom([]string{"http", "dns", "none"}).Draw(t, "name"),
				rapid.SampledFrom([]string{"TCP", "UDP", "SCTP"}).Draw(t, "protocol"), port,
				rapid.Int32Range(port, 65535).Draw(t, "end")))
		}
		if rapid.Bool().Draw(t, "fewer Pods") {
			in.Pods = in.Pods[1:]
		}
		err := w.places["node"].ns.Do(func(ns.NetNS) error { return w.table.Change(ctx, rules.Build(in)) })
		if err != nil {
			t.Fatalf("%v under %v, want no error", err, specs(in.Policies))
		}
	})
}

func specs(ps []*networkingv1.NetworkPolicy) (out []networkingv1.NetworkPolicySpec) {
	for _, p := range ps {
		out = append(out, p.Spec)
	}
	return out
}
