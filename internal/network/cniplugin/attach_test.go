package cniplugin_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/network"
	"github.com/gantry-project/gantry/internal/network/ipam"
	"github.com/gantry-project/gantry/test/expect"
)

func tcp(host, container int) map[string]any {
	return map[string]any{"hostPort": host, "containerPort": container, "protocol": "tcp"}
}

func TestPodsReachPodsTheHostAndOutside(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "10.199.0.0/24")
	a, b := w.joinedPod(), w.joinedPod()
	if a.ip == b.ip || !netip.MustParsePrefix("10.199.0.0/24").Contains(a.ip) {
		t.Fatalf("addresses %s and %s", a.ip, b.ip)
	}
	w.tcpServer(b.ns, b.ip.String()+":80")
	w.tcpServer(a.ns, a.ip.String()+":80")
	w.tcpServer(w.host, "10.199.0.1:81")
	w.tcpServer(w.neighbour, neighbourIP+":82")

	w.reaches(a.ns, "tcp", b.ip.String()+":80", a.ip.String())  // Pod to Pod, nobody rewrites the source
	w.reaches(a.ns, "tcp", a.ip.String()+":80", a.ip.String())  // to itself
	w.reaches(a.ns, "tcp", "10.199.0.1:81", a.ip.String())      // Pod to host
	w.reaches(w.host, "tcp", a.ip.String()+":80", "10.199.0.1") // host to Pod
	w.reaches(a.ns, "tcp", neighbourIP+":82", hostIP)           // Pod to the outside: masqueraded
	if _, err := a.cni("CHECK", nil); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	if _, err := a.cni("STATUS", nil); err != nil {
		t.Errorf("STATUS: %v", err)
	}
}

// row: NET-07, PWK-29
func TestDelGivesEverythingBack(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "10.199.0.0/29") // five Pods at most
	for range 3 {
		var pods []*pod
		for range 5 {
			pods = append(pods, w.joinedPod())
		}
		full := w.pod()
		if err := full.add(); err == nil || !strings.Contains(err.Error(),
			"all 5 addresses of the Pod range 10.199.0.0/29 are in use; a Pod that ends frees one") {
			t.Fatalf("sixth Pod: %v", err)
		}
		if _, err := full.cni("STATUS", nil); err != nil { // only the Pod waits, the node does not
			t.Errorf("STATUS of a full network: %v", err)
		}
		for _, p := range pods {
			for range 2 { // DEL may come twice
				if _, err := p.cni("DEL", nil); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	w.inNamespace(w.host, func() error {
		links, err := netlink.LinkList()
		for _, l := range links {
			if strings.HasPrefix(l.Attrs().Name, "veth") {
				t.Errorf("link %s is left", l.Attrs().Name)
			}
		}
		return err
	})
}

// row: NET-03
func TestManyPodsAtOnceGetDifferentAddresses(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "10.199.0.0/24")
	const n = 50
	var pods []*pod
	for range n {
		pods = append(pods, w.pod())
	}
	var wg sync.WaitGroup
	failed := make(chan error, n)
	limit := make(chan struct{}, 8)
	for _, p := range pods {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			failed <- p.add()
		})
	}
	wg.Wait()
	seen := map[netip.Addr]string{}
	for _, p := range pods {
		expect.NoError(t, <-failed)
		if other, ok := seen[p.ip]; ok {
			t.Errorf("%s and %s both have %s", p.id, other, p.ip)
		}
		seen[p.ip] = p.id
	}
}

// row: NET-03
func TestTwoFamilies(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "10.199.0.0/24,fd00:199::/64")
	a, b := w.joinedPod(tcp(8080, 80)), w.joinedPod()
	if len(a.res.IPs) != 2 {
		t.Fatalf("addresses: %v", a.res.IPs)
	}
	six := a.res.IPs[1].Address.IP.String()
	w.tcpServer(a.ns, "["+six+"]:80")
	w.reaches(b.ns, "tcp", "["+six+"]:80", b.res.IPs[1].Address.IP.String())
	w.reaches(b.ns, "tcp", "[fd00:199::1]:8080", b.res.IPs[1].Address.IP.String())
}

func TestHostPorts(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "10.199.0.0/24")
	web := w.joinedPod(tcp(8080, 80), map[string]any{"hostPort": 5353, "containerPort": 53, "protocol": "udp"},
		map[string]any{"hostPort": 9090, "containerPort": 80, "protocol": "tcp", "hostIP": "127.0.0.1"})
	other := w.joinedPod()
	w.tcpServer(web.ns, ":80")
	w.udpServer(web.ns, ":53")
	gateway := "10.199.0.1"

	w.reaches(w.host, "tcp", "127.0.0.1:8080", gateway) // on the host's loopback
	w.reaches(w.host, "tcp", hostIP+":8080", "")        // on the host's address, from the host
	// from elsewhere: the Pod sees the client's address
	w.reaches(w.neighbour, "tcp", hostIP+":8080", neighbourIP)
	// from another Pod: it sees the client's address
	w.reaches(other.ns, "tcp", hostIP+":8080", other.ip.String())
	w.reaches(web.ns, "tcp", hostIP+":8080", gateway)                    // from itself
	w.reaches(w.neighbour, "udp", hostIP+":5353", neighbourIP)           // UDP
	w.reaches(w.host, "tcp", "127.0.0.1:9090", gateway)                  // only on this address
	if _, err := w.ask(w.neighbour, "tcp", hostIP+":9090"); err == nil { // and not on others
		t.Error("a port with hostIP 127.0.0.1 answers on the host's other address")
	}

	// A flushed table comes back at the next start, with the ports of running Pods.
	w.inNamespace(w.host, func() error { return exec.Command("nft", "flush", "ruleset").Run() })
	w.ensure()
	w.reaches(w.neighbour, "tcp", hostIP+":8080", neighbourIP)

	// The next holder of a UDP port gets the traffic, even of a client that keeps its socket.
	if _, err := web.cni("DEL", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := w.ask(w.neighbour, "tcp", hostIP+":8080"); err == nil {
		t.Error("the host port still answers after DEL")
	}
	next := w.joinedPod(tcp(8080, 80))
	w.tcpServer(next.ns, ":80")
	w.reaches(w.neighbour, "tcp", hostIP+":8080", neighbourIP)
}

func TestHostPortsCollide(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "10.199.0.0/24")
	first := w.joinedPod(tcp(8080, 80))
	second := w.pod(tcp(8080, 81))
	err := second.add()
	if err == nil || !strings.Contains(err.Error(), "host port 8080/TCP is taken by Pod default/sandbox1 (8080/TCP)") {
		t.Fatalf("second Pod: %v", err)
	}
	if _, err := first.cni("DEL", nil); err != nil {
		t.Fatal(err)
	}
	expect.NoError(t, second.add())
}

func TestPodsStayOffTheHostsLoopback(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "10.199.0.0/24")
	p := w.joinedPod()
	w.tcpServer(w.host, "127.0.0.1:7000")
	// A Pod that may change its routes sends packets for 127.0.0.1 out to the host.
	w.inNamespace(p.ns, func() error {
		expect.NoError(t, os.WriteFile("/proc/sys/net/ipv4/conf/all/route_localnet", []byte("1"), 0))
		lo, err := netlink.LinkByName("lo")
		expect.NoError(t, err)
		expect.NoError(t, netlink.LinkSetDown(lo))
		addrs, err := netlink.AddrList(lo, netlink.FAMILY_V4)
		expect.NoError(t, err)
		for _, a := range addrs {
			expect.NoError(t, netlink.AddrDel(lo, &a))
		}
		eth, err := netlink.LinkByName("eth0")
		expect.NoError(t, err)
		_, dst, _ := net.ParseCIDR("127.0.0.1/32")
		return netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Dst: dst, Gw: net.ParseIP("10.199.0.1"),
			Src: net.ParseIP(p.ip.String())})
	})
	if seen, err := w.ask(p.ns, "tcp", "127.0.0.1:7000"); err == nil {
		t.Errorf("a Pod (seen as %s) reached what listens on the host's loopback", seen)
	}
}

func TestLeftoversAreFound(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "10.199.0.0/24")
	stays, lost := w.joinedPod(), w.joinedPod(tcp(8080, 80))

	// CNI's GC names the sandboxes that live.
	if _, err := stays.cni("GC",
		map[string]any{"cni.dev/valid-attachments": []map[string]string{
			{"containerID": stays.id, "ifname": "eth0"}}}); err != nil {
		t.Fatal(err)
	}
	again := w.joinedPod(tcp(8080, 80)) // so the port is free

	// A sandbox whose namespace is not visible may be running, as the runtime knows: a start
	// releases nothing, the audit asks.
	expect.NoError(t, unix.Unmount(again.ns.Path(), unix.MNT_DETACH))
	if st := w.ensure(); !st.Own || len(w.book().Leases) != 2 {
		t.Errorf("Ensure: %+v, leases %v", st, w.book().Leases)
	}
	ready := map[string]bool{stays.id: true, again.id: true}
	a := network.NewAuditor(w.cfg, func(context.Context) (map[string]bool, error) { return ready, nil })
	for range ipam.MissedAudits + 1 {
		w.inNamespace(w.host, func() error { _, err := a.Audit(t.Context()); return err })
	}
	if n, links := len(w.book().Leases), w.veths(); n != 2 || len(links) != 2 {
		t.Errorf("the runtime lists both as ready; %d leases, links %v", n, links)
	}
	ready[again.id] = false
	w.inNamespace(w.host, func() error { _, err := a.Audit(t.Context()); return err })
	w.joinedPod(tcp(8080, 80))
	if _, err := lost.cni("CHECK", nil); err == nil {
		t.Error("CHECK finds nothing wrong with a sandbox that was parted")
	}
	if _, err := stays.cni("CHECK", nil); err != nil {
		t.Error(err)
	}
}

func TestAnotherRangeWaitsForTheLastPod(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "10.199.0.0/24")
	p := w.joinedPod()
	w.cfg.PodCIDR, w.cfg.Bridge = "10.200.0.0/24", "gtest9"
	err := w.host.Do(func(ns.NetNS) error { _, err := network.Ensure(t.Context(), w.cfg); return err })
	if err == nil || !strings.Contains(err.Error(),
		"Pod default/sandbox1 runs on bridge gtest0 with range [10.199.0.0/24]: keep --bridge, and --pod-cidr as it "+
			"was or with a range that contains it") {
		t.Fatalf("while a Pod runs: %v", err)
	}
	if _, err := p.cni("DEL", nil); err != nil {
		t.Fatal(err)
	}
	w.ensure()
	next := w.joinedPod()
	w.tcpServer(w.host, "10.200.0.1:81")
	w.reaches(next.ns, "tcp", "10.200.0.1:81", next.ip.String())
	w.inNamespace(w.host, func() error {
		if _, err := netlink.LinkByName("gtest0"); err == nil {
			t.Error("the old bridge is left")
		}
		return nil
	})
}

// A start with a range that contains the old one widens it: running Pods keep their addresses and
// gateway, and new ones fit, whether or not the gateway changes.
//
// row: NET-03
func TestARangeIsWidenedWhilePodsRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ small, wide, gateway, six string }{
		"the same gateway": {"10.199.0.0/29", "10.199.0.0/24", "10.199.0.1", ""},
		"another gateway":  {"10.199.0.8/29", "10.199.0.0/24", "10.199.0.1", ""},
		"two families": {"10.199.0.0/29,fd00:199::/125", "10.199.0.0/24,fd00:199::/64", "10.199.0.1",
			"fd00:199::1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, c.small)
			var pods []*pod
			for range 5 {
				pods = append(pods, w.joinedPod())
			}
			full := w.pod()
			if err := full.add(); err == nil || !strings.Contains(err.Error(),
				"all 5 addresses of the Pod range "+strings.Split(c.small, ",")[0]+" are in use") {
				t.Fatalf("the sixth Pod: %v", err)
			}
			w.cfg.PodCIDR = c.wide
			for range 2 { // a start may be killed, and made again
				w.ensure()
			}
			expect.NoError(t, full.add())
			seen := map[netip.Addr]bool{}
			for _, p := range append(pods, full) {
				if seen[p.ip] {
					t.Errorf("%s is given twice", p.ip)
				}
				seen[p.ip] = true
			}
			for range 9 { // round the old gateway
				next := w.joinedPod()
				if seen[next.ip] || next.ip == netip.MustParseAddr("10.199.0.9") && c.small == "10.199.0.8/29" {
					t.Errorf("%s is given to a new Pod", next.ip)
				}
				seen[next.ip] = true
			}
			w.tcpServer(pods[0].ns, ":80")
			w.tcpServer(full.ns, ":80")
			w.tcpServer(w.neighbour, neighbourIP+":82")
			w.reaches(full.ns, "tcp", pods[0].ip.String()+":80", full.ip.String())    // new to old
			w.reaches(pods[1].ns, "tcp", full.ip.String()+":80", pods[1].ip.String()) // old to new
			w.reaches(pods[1].ns, "tcp", neighbourIP+":82", hostIP)                   // the old Pod's way out
			w.reaches(full.ns, "tcp", neighbourIP+":82", hostIP)
			w.reaches(w.host, "tcp", pods[0].ip.String()+":80", c.gateway)
			if c.six != "" {
				w.reaches(full.ns, "tcp", "["+pods[0].res.IPs[1].Address.IP.String()+"]:80",
					full.res.IPs[1].Address.IP.String())
			}
			// Back to less is not possible while Pods run.
			w.cfg.PodCIDR = c.small
			if err := w.host.Do(
				func(ns.NetNS) error { _, err := network.Ensure(t.Context(), w.cfg); return err }); err == nil {
				t.Error("the range was narrowed under Pods that run")
			}
		})
	}
}

func TestAFirewallThatDropsForwardedPacketsIsNamed(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "10.199.0.0/24")
	if st := w.ensure(); st.Warning != "" {
		t.Errorf("without a firewall: %s", st.Warning)
	}
	w.inNamespace(w.host, func() error {
		return exec.Command("nft",
			"add table ip filter; add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }").
			Run()
	})
	want := "the host's firewall (nft table ip filter, chain FORWARD) drops forwarded packets by default"
	if st := w.ensure(); !strings.HasPrefix(st.Warning, want) {
		t.Errorf("with one: got %q, want it to begin with %q", st.Warning, want)
	}
}

func TestCleanLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "10.199.0.0/24")
	w.joinedPod(tcp(8080, 80))
	forgetful := w.cfg
	forgetful.Bridge, forgetful.PodCIDR = "", "" // the flags of `gantry up` need not be repeated
	for range 2 {
		w.inNamespace(w.host, func() error { return network.Clean(t.Context(), forgetful) })
	}
	w.inNamespace(w.host, func() error {
		links, err := netlink.LinkList()
		for _, l := range links {
			if n := l.Attrs().Name; n != "lo" && n != "uplink" {
				t.Errorf("link %s is left", n)
			}
		}
		return err
	})
	if _, err := os.Stat(filepath.Join(w.cfg.StateDir, "net")); err == nil {
		t.Error("the address book is left")
	}
}

func TestSomebodyElsesNetworkIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "10.199.0.0/24")
	cfg := w.cfg
	cfg.DataDir, cfg.Bridge = t.TempDir(), "gtest1"
	conf := filepath.Join(cfg.DataDir, "cni/net.d/00-theirs.conflist")
	expect.NoError(t, os.MkdirAll(filepath.Dir(conf), 0o755))
	expect.NoError(t, os.WriteFile(conf, []byte("{}"), 0o600))
	w.inNamespace(w.host, func() error {
		st, err := network.Ensure(t.Context(), cfg)
		if st.Own || st.ConfFile != conf {
			t.Errorf("Ensure: %+v", st)
		}
		if _, err := netlink.LinkByName("gtest1"); err == nil {
			t.Error("a bridge was made beside a foreign network")
		}
		return err
	})
	// A second instance with the same range gets an error.
	expect.NoError(t, os.Remove(conf))
	err := w.host.Do(func(ns.NetNS) error { _, err := network.Ensure(t.Context(), cfg); return err })
	if err == nil || err.Error() != "the Pod range 10.199.0.0/24 overlaps 10.199.0.0/24, which is behind interface "+
		"gtest0; choose another with --pod-cidr" {
		t.Errorf("overlap: %v", err)
	}
}

// Another CNI plugin takes Gantry's place: bridge, addresses, rules and configuration are removed,
// also if the directory has changed, and the sandboxes that were on it are returned until each has
// ended. Then Gantry's network can be set up again.
//
// row: NET-02
func TestGantrysNetworkIsReplacedByAnother(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "10.199.0.0/24")
	p := w.joinedPod(tcp(8080, 80))
	other := w.cfg
	other.ConfDir, other.Bridge, other.PodCIDR = t.TempDir(), "", ""
	installed, err := network.InstalledConfDir(other)
	expect.NoError(t, err)
	if installed == "" || installed == other.ConfDir {
		t.Fatalf("made in %q", installed)
	}
	for range 2 { // a start may be killed, and made again
		w.inNamespace(w.host, func() error { return network.Uninstall(t.Context(), other) })
	}
	w.inNamespace(w.host, func() error {
		links, err := netlink.LinkList()
		for _, l := range links {
			if n := l.Attrs().Name; n != "lo" && n != "uplink" {
				t.Errorf("link %s is left", n)
			}
		}
		if out, _ := exec.Command("nft", "list", "tables").CombinedOutput(); strings.Contains(string(out), "gantry") {
			t.Errorf("a table is left: %s", out)
		}
		return err
	})
	if installed, err := network.InstalledConfDir(other); installed != "" || err != nil {
		t.Errorf("still made in %q: %v", installed, err)
	}
	left, err := network.LeftoverSandboxes(other)
	expect.NoError(t, err)
	if len(left) != 1 || left[p.id] != "Pod default/"+p.id {
		t.Errorf("left: %v", left)
	}
	expect.NoError(t, network.ReleaseSandbox(other, p.id))
	if left, err := network.LeftoverSandboxes(other); len(left) != 0 || err != nil {
		t.Errorf("left after it was forgotten: %v, %v", left, err)
	}
	w.ensure()
	next := w.joinedPod()
	w.tcpServer(w.host, "10.199.0.1:81")
	w.reaches(next.ns, "tcp", "10.199.0.1:81", next.ip.String())
}

// A host that forwards IPv6 ignores router advertisements unless configured: a default route from a
// router must not expire.
func TestRouterAdvertisementsAreStillAccepted(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "10.199.0.0/24")
	acceptRA := func(link string) string {
		raw, err := os.ReadFile("/proc/sys/net/ipv6/conf/" + link + "/accept_ra")
		expect.NoError(t, err)
		return strings.TrimSpace(string(raw))
	}
	w.inNamespace(w.host, func() error {
		out, err := exec.Command("sh", "-ec",
			"sysctl -qw net.ipv6.conf.uplink.accept_ra=1; ip -6 route add default via fe80::1 dev uplink proto ra; "+
				"ip link add quiet type veth peer name silent; sysctl -qw net.ipv6.conf.quiet.accept_ra=1; ip link "+
				"set quiet up").CombinedOutput()
		if err != nil {
			t.Fatalf("got error %v, want none: %s", err, out)
		}
		return nil
	})
	w.ensure()
	w.inNamespace(w.host, func() error {
		if got := acceptRA("uplink"); got != "1" {
			t.Errorf("without IPv6 Pods nothing is to be changed: %s", got)
		}
		return nil
	})
	w.cfg.PodCIDR = "10.199.0.0/24,fd00:199::/64"
	w.ensure()
	w.inNamespace(w.host, func() error {
		if up, other := acceptRA("uplink"), acceptRA("quiet"); up != "2" || other != "1" {
			t.Errorf("the uplink, whose route a router gave: %s; another: %s", up, other)
		}
		return nil
	})
}
