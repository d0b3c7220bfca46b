package cniplugin_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/gantry-project/gantry/internal/network"
	"github.com/gantry-project/gantry/internal/network/cniplugin"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/netns"
)

// The test binary is the plugin when CNI calls it.
func TestMain(m *testing.M) {
	if os.Getenv("CNI_COMMAND") != "" {
		skel.PluginMainFuncs(skel.CNIFuncs{Add: cniplugin.Add, Del: cniplugin.Del, Check: cniplugin.Check,
			GC: cniplugin.GC, Status: cniplugin.Status}, version.All, "test")
		return
	}
	os.Exit(m.Run())
}

// fixture is a machine made of network namespaces: host, where Gantry's network lives, and a
// neighbour behind host's uplink.
type fixture struct {
	t               *testing.T
	host, neighbour ns.NetNS
	cfg             network.Config
	pods            int
}

const (
	hostIP      = "192.0.2.1"
	neighbourIP = "192.0.2.2"
)

func newFixture(t *testing.T, cidr string) *fixture {
	t.Helper()
	if os.Geteuid() != 0 || os.Getenv("GANTRY_NO_CONTAINERS") != "" {
		t.Skip("needs root: makes network namespaces")
	}
	dir := t.TempDir()
	w := &fixture{t: t, host: netns.New(t), neighbour: netns.New(t), cfg: network.Config{
		DataDir: dir, StateDir: filepath.Join(dir, "run"), Bridge: "gtest0", PodCIDR: cidr,
		BinDir: filepath.Join(dir, "bin"),
	}}
	self, err := os.Executable()
	expect.NoError(t, err)
	expect.NoError(t, os.Mkdir(w.cfg.BinDir, 0o755))
	expect.NoError(t, os.Symlink(self, filepath.Join(w.cfg.BinDir, network.PluginType)))
	w.inNamespace(w.host, func() error {
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "uplink"}, PeerName: "uplink",
			PeerNamespace: netlink.NsFd(w.neighbour.Fd())}
		if err := netlink.LinkAdd(veth); err != nil {
			return err
		}
		return setUp(hostIP, neighbourIP)
	})
	w.inNamespace(w.neighbour, func() error { return setUp(neighbourIP, "") })
	w.ensure()
	return w
}

// setUp brings up the loopback, and the uplink with address and default route.
func setUp(ip, gateway string) error {
	l, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return err
	}
	if l, err = netlink.LinkByName("uplink"); err != nil {
		return err
	}
	if err := netlink.AddrAdd(l, network.Address(netip.MustParseAddr(ip), 24)); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(l); err != nil || gateway == "" {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Gw: net.ParseIP(gateway)})
}

func (w *fixture) ensure() network.State {
	w.t.Helper()
	var st network.State
	w.inNamespace(w.host, func() (err error) { st, err = network.Ensure(w.t.Context(), w.cfg); return err })
	return st
}

// inNamespace runs f inside a namespace; sockets f makes stay there.
func (w *fixture) inNamespace(n ns.NetNS, f func() error) {
	w.t.Helper()
	expect.NoError(w.t, n.Do(func(ns.NetNS) error { return f() }))
}

type pod struct {
	w     *fixture
	ns    ns.NetNS
	id    string
	ports []map[string]any
	ip    netip.Addr
	res   *current.Result
}

// pod makes a sandbox's namespace, not yet joined.
func (w *fixture) pod(ports ...map[string]any) *pod {
	w.pods++
	p := &pod{w: w, ns: netns.New(w.t), id: fmt.Sprintf("sandbox%d", w.pods), ports: ports}
	w.inNamespace(p.ns, func() error {
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		return err
	})
	return p
}

// joinedPod is a pod after ADD.
func (w *fixture) joinedPod(ports ...map[string]any) *pod {
	w.t.Helper()
	p := w.pod(ports...)
	expect.NoError(w.t, p.add())
	return p
}

func (p *pod) add() error {
	out, err := p.cni("ADD", nil)
	if err != nil {
		return err
	}
	p.res = &current.Result{}
	if err := json.Unmarshal(out, p.res); err != nil {
		return err
	}
	p.ip, _ = netip.AddrFromSlice(p.res.IPs[0].Address.IP)
	p.ip = p.ip.Unmap()
	return nil
}

// command is the plugin as a runtime calls it: configuration on stdin.
func (p *pod) command(verb string, extra map[string]any) (*exec.Cmd, error) {
	raw, err := os.ReadFile(filepath.Join(p.w.cfg.DataDir, "cni/net.d/10-gantry.conflist"))
	if err != nil {
		return nil, err
	}
	var list struct {
		CNIVersion, Name string
		Plugins          []map[string]any
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	conf := list.Plugins[0]
	conf["cniVersion"], conf["name"] = list.CNIVersion, list.Name
	if p.ports != nil {
		conf["runtimeConfig"] = map[string]any{"portMappings": p.ports}
	}
	for k, v := range extra {
		conf[k] = v
	}
	if p.res != nil && verb == "CHECK" {
		conf["prevResult"] = p.res
	}
	stdin, err := json.Marshal(conf)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(p.w.cfg.BinDir, network.PluginType))
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Env = append(os.Environ(), "CNI_COMMAND="+verb, "CNI_CONTAINERID="+p.id, "CNI_NETNS="+p.ns.Path(),
		"CNI_IFNAME=eth0", "CNI_PATH="+p.w.cfg.BinDir,
		"CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME="+p.id)
	return cmd, nil
}

// cni calls the plugin in the host's network; the result comes on stdout.
func (p *pod) cni(verb string, extra map[string]any) ([]byte, error) {
	cmd, err := p.command(verb, extra)
	if err != nil {
		return nil, err
	}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = p.w.host.Do(func(ns.NetNS) error { return cmd.Run() })
	if err != nil {
		return nil, fmt.Errorf("%w: %s%s", err, out.String(), errOut.String())
	}
	return out.Bytes(), nil
}

// tcpServer answers each connection inside n with the caller's address as it sees it.
func (w *fixture) tcpServer(n ns.NetNS, addr string) {
	w.t.Helper()
	var l net.Listener
	w.inNamespace(n, func() (err error) { l, err = net.Listen("tcp", addr); return err })
	w.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, c.RemoteAddr())
			c.Close()
		}
	}()
}

func (w *fixture) udpServer(n ns.NetNS, addr string) {
	w.t.Helper()
	var l net.PacketConn
	w.inNamespace(n, func() (err error) { l, err = net.ListenPacket("udp", addr); return err })
	w.t.Cleanup(func() { l.Close() })
	go func() {
		for b := make([]byte, 64); ; {
			_, from, err := l.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = l.WriteTo([]byte(from.String()), from)
		}
	}()
}

// ask connects from inside n and returns the IP the server saw.
func (w *fixture) ask(n ns.NetNS, proto, addr string) (string, error) {
	var said string
	err := n.Do(func(ns.NetNS) error {
		c, err := net.DialTimeout(proto, addr, 2*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
			return err
		}
		if proto == "udp" {
			if _, err := c.Write([]byte("?")); err != nil {
				return err
			}
			b := make([]byte, 64)
			k, err := c.Read(b)
			said = string(b[:k])
			return err
		}
		b, err := io.ReadAll(c)
		said = string(b)
		return err
	})
	if err != nil {
		return "", err
	}
	ip, err := netip.ParseAddrPort(said)
	return ip.Addr().Unmap().String(), err
}

// reaches fails the test unless the server answers, and saw the caller as from.
func (w *fixture) reaches(n ns.NetNS, proto, addr, from string) {
	w.t.Helper()
	got, err := w.ask(n, proto, addr)
	for range 4 { // a datagram may be lost, and a busy machine be late
		if err == nil {
			break
		}
		got, err = w.ask(n, proto, addr)
	}
	if err != nil || from != "" && got != from {
		w.t.Errorf("%s %s: the server saw %q, want %q (%v)", proto, addr, got, from, err)
	}
}
