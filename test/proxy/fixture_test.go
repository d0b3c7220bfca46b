package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/proxy"
	"github.com/gantry-project/gantry/internal/proxy/nftables"
	"github.com/gantry-project/gantry/internal/proxy/nftables/nfnetlink"
	"github.com/gantry-project/gantry/internal/proxy/rules"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/netns"
)

const (
	bridge      = "br0"
	nodeIP      = "192.0.2.1"
	neighbourIP = "192.0.2.2"
	tableName   = "gantry_proxy_test"
)

// fixture is a node with a bridge, Pods on it as the CNI plugin joins them, and a neighbour beyond
// the uplink.
type fixture struct {
	t               testing.TB
	node, neighbour ns.NetNS
	client          *fake.Clientset
	settings        rules.Settings
	pods            int
	facts           *recordingSink
	// one for each watch that has started: what comes before would be lost on the fake client
	watches chan struct{}
}

type recordingSink struct{ said chan string }

func (f *recordingSink) Put(ref journal.Ref, fact journal.Fact) {
	select {
	case f.said <- ref.Kind + " " + ref.Name + ": " + journal.Kind(fact):
	default:
	}
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	if os.Geteuid() != 0 || os.Getenv("GANTRY_NO_CONTAINERS") != "" {
		t.Skip("needs root: makes network namespaces")
	}
	w := &fixture{t: t, node: netns.New(t), neighbour: netns.New(t), client: fake.NewClientset(),
		facts: &recordingSink{make(chan string, 1000)}, watches: make(chan struct{}, 100),
		settings: rules.Settings{Family: rules.IPv4, MasqueradeBit: 14,
			LocalDetector: rules.LocalTrafficDetector{Interface: bridge}, ConfineInterfaces: []string{bridge}}}
	w.client.PrependWatchReactor("*", func(a k8stesting.Action) (bool, watch.Interface, error) {
		var from metav1.ListOptions // without it, what is made between the list and the watch is lost
		if asked, ok := a.(k8stesting.WatchActionImpl); ok {
			from = asked.ListOptions
		}
		one, err := w.client.Tracker().Watch(a.GetResource(), a.GetNamespace(), from)
		w.watches <- struct{}{}
		return true, one, err
	})
	w.sh(w.node,
		`ip link set lo up; ip link add br0 address 0a:58:0a:c7:00:01 type bridge; ip addr add 10.199.0.1/24 dev br0;
		ip link set br0 up
		sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.br0.route_localnet=1
		sysctl -qw net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.br0.send_redirects=0
		ip link add uplink type veth peer name up2; ip link set uplink up; ip addr add 192.0.2.1/24 dev uplink`)
	w.move("up2", w.neighbour)
	w.sh(w.neighbour,
		`ip link set lo up; ip link set up2 up; ip addr add 192.0.2.2/24 dev up2; ip route add default via 192.0.2.1`)
	w.sh(w.node, `ip route add default via 192.0.2.2`)
	return w
}

func (w *fixture) sh(n ns.NetNS, script string) {
	w.t.Helper()
	netns.MustRun(w.t, n, script)
}

func (w *fixture) move(link string, to ns.NetNS) {
	w.sh(w.node, fmt.Sprintf("ip link set %s netns /proc/%d/fd/%d", link, os.Getpid(), to.Fd()))
}

type pod struct {
	ns.NetNS
	ip string
}

// pod makes a Pod on the bridge.
func (w *fixture) pod() pod {
	w.t.Helper()
	w.pods++
	p := pod{netns.New(w.t), fmt.Sprintf("10.199.0.%d", w.pods+1)}
	w.sh(w.node,
		fmt.Sprintf("ip link add v%d type veth peer name eth0; ip link set v%d master br0; ip link set v%d type "+
			"bridge_slave hairpin on; ip link set v%d up", w.pods, w.pods, w.pods, w.pods))
	w.move("eth0", p.NetNS)
	w.sh(p.NetNS, "ip link set lo up; ip link set eth0 up; ip addr add "+p.ip+"/32 dev eth0; ip route add 10.199.0.1 "+
		"dev eth0 scope link; ip route add default via 10.199.0.1")
	return p
}

// serve makes the Pod answer with its own and the caller's address.
func (w *fixture) serve(p pod) {
	w.t.Helper()
	var l net.Listener
	var u net.PacketConn
	expect.NoError(w.t, p.Do(func(ns.NetNS) (err error) {
		if l, err = net.Listen("tcp4", ":8080"); err == nil {
			u, err = net.ListenPacket("udp4", ":8080")
		}
		return err
	}))
	w.t.Cleanup(func() { l.Close(); u.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(c, "%s %s", p.ip, c.RemoteAddr())
			c.Close()
		}
	}()
	go func() {
		for b := make([]byte, 64); ; {
			_, from, err := u.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = u.WriteTo([]byte(p.ip+" "+from.String()), from)
		}
	}()
}

// ask connects from inside n; it returns who answered and whom they saw.
func ask(n ns.NetNS, proto, addr string) (who, saw string, err error) {
	err = n.Do(func(ns.NetNS) error {
		c, err := net.DialTimeout(proto, addr, time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		who, saw, err = answer(c, proto)
		return err
	})
	return who, saw, err
}

func answer(c net.Conn, proto string) (who, saw string, err error) {
	var b []byte
	if proto == "udp" {
		if _, err := c.Write([]byte("?")); err != nil {
			return "", "", err
		}
		b = make([]byte, 64)
		n, err := c.Read(b)
		if err != nil {
			return "", "", err
		}
		b = b[:n]
	} else if b, err = io.ReadAll(c); err != nil {
		return "", "", err
	}
	who, from, _ := strings.Cut(string(b), " ")
	ap, err := netip.ParseAddrPort(from)
	return who, ap.Addr().Unmap().String(), err
}

// askPatiently is ask, asked again while nobody answers in time: a busy machine may be late.
func askPatiently(from ns.NetNS, proto, addr string) (who, saw string, err error) {
	for range 20 {
		var late net.Error
		if who, saw, err = ask(from, proto, addr); !errors.As(err, &late) || !late.Timeout() {
			break
		}
	}
	return who, saw, err
}

// reaches fails the test unless who answers and saw the caller as saw.
func (w *fixture) reaches(from ns.NetNS, proto, addr, who, saw string) {
	w.t.Helper()
	gotWho, gotSaw, err := askPatiently(from, proto, addr)
	if err != nil || who != "" && gotWho != who || saw != "" && gotSaw != saw {
		w.t.Errorf("%s %s: %q answers and saw %q, want %q and %q (%v)", proto, addr, gotWho, gotSaw, who, saw, err)
	}
}

// refused fails the test unless the connection is refused at once.
func (w *fixture) refused(from ns.NetNS, addr string) {
	w.t.Helper()
	if who, _, err := askPatiently(from, "tcp", addr); !errors.Is(err, unix.ECONNREFUSED) {
		w.t.Errorf("tcp %s: %q answers (%v), want: connection refused", addr, who, err)
	}
}

// dropped fails the test unless nobody answers in time.
func (w *fixture) dropped(from ns.NetNS, addr string) {
	w.t.Helper()
	who, _, err := ask(from, "tcp", addr)
	var late net.Error
	if !errors.As(err, &late) || !late.Timeout() {
		w.t.Errorf("tcp %s: %q answers (%v), want: no answer", addr, who, err)
	}
}

// table opens the proxy's table of the fixture's address family in the node's namespace.
func (w *fixture) table() proxy.Table {
	w.t.Helper()
	return w.tables(w.settings.Family)[0]
}

// tables opens the proxy's tables of families, on one line as the command has them.
func (w *fixture) tables(families ...rules.Family) (out []proxy.Table) {
	w.t.Helper()
	line := new(nfnetlink.Conn)
	for _, f := range families {
		s := w.settings
		s.Family = f
		expect.NoError(w.t, w.node.Do(func(ns.NetNS) error {
			t, err := nftables.Open(line, f, tableName, rules.NewTableFrame(s))
			out = append(out, proxy.Table{Settings: s, Kernel: t})
			return err
		}))
	}
	return out
}

// run starts a proxy on the node and waits until the kernel has everything; stop ends it.
func (w *fixture) run() (stop func()) {
	w.t.Helper()
	p, err := proxy.New(proxy.Options{Client: w.client, Node: "n1", Tables: []proxy.Table{w.table()},
		MinSyncPeriod: time.Millisecond, Journal: w.facts})
	expect.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := w.start(ctx, p)
	stop = func() {
		cancel()
		_ = <-ended
	}
	select {
	case <-p.Synced():
	case err := <-ended:
		w.t.Fatalf("the proxy ended: %v", err)
	case <-time.After(time.Minute):
		stop()
		w.t.Fatal("the proxy is not in sync after 30 s")
	}
	return stop
}

// start runs a proxy on the node, and returns when it watches.
func (w *fixture) start(ctx context.Context, p *proxy.Proxier) (ended chan error) {
	ended = make(chan error, 1)
	go func() { ended <- w.node.Do(func(ns.NetNS) error { return p.Run(ctx) }) }()
	for range 3 {
		<-w.watches
	}
	return ended
}

// service creates or updates a Service named web with the cluster IP 10.96.0.10.
func (w *fixture) service(f func(*v1.Service)) *v1.Service {
	w.t.Helper()
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: v1.ServiceSpec{
		Type: v1.ServiceTypeClusterIP, ClusterIP: "10.96.0.10", ClusterIPs: []string{"10.96.0.10"},
		Ports: []v1.ServicePort{{Name: "t", Protocol: v1.ProtocolTCP, Port: 80},
			{Name: "u", Protocol: v1.ProtocolUDP, Port: 80}},
	}}
	if f != nil {
		f(s)
	}
	services := w.client.CoreV1().Services("default")
	if _, err := services.Update(w.t.Context(), s, metav1.UpdateOptions{}); err != nil {
		_, err = services.Create(w.t.Context(), s, metav1.CreateOptions{})
		expect.NoError(w.t, err)
	}
	return s
}

type end struct {
	ip, node string
	state    string // as in the rules' tests: "", unready, ending, ended
}

// endpoints writes the slice of the Service web.
func (w *fixture) endpoints(ends ...end) {
	w.t.Helper()
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1",
		Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{
			{Name: new("t"), Protocol: new(v1.ProtocolTCP), Port: new(int32(8080))},
			{Name: new("u"), Protocol: new(v1.ProtocolUDP), Port: new(int32(8080))}}}
	for _, e := range ends {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{e.ip}, NodeName: &e.node,
			TargetRef: &v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "pod-" + e.ip},
			Conditions: discoveryv1.EndpointConditions{Ready: new(e.state == ""),
				Serving:     new(e.state == "" || e.state == "ending"),
				Terminating: new(strings.HasPrefix(e.state, "end"))}})
	}
	slices := w.client.DiscoveryV1().EndpointSlices("default")
	if _, err := slices.Update(w.t.Context(), s, metav1.UpdateOptions{}); err != nil {
		_, err = slices.Create(w.t.Context(), s, metav1.CreateOptions{})
		expect.NoError(w.t, err)
	}
}

// eventually waits until f is true and returns how long that took, to some milliseconds.
func (w *fixture) eventually(what string, f func() bool) time.Duration {
	w.t.Helper()
	began := time.Now()
	expect.Eventually(w.t, what, f)
	return time.Since(began)
}

// list is the table as nft prints it.
func (w *fixture) list() string {
	w.t.Helper()
	var out []byte
	expect.NoError(w.t, w.node.Do(func(ns.NetNS) (err error) {
		out, err = exec.Command("nft", "list", "table", string(w.settings.Family), tableName).CombinedOutput()
		return err
	}))
	return string(out)
}
