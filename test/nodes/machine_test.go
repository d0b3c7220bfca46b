package nodes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/gantry-project/gantry/internal/instance"
	"github.com/gantry-project/gantry/test/binaries"
	"github.com/gantry-project/gantry/test/images"
	testinstance "github.com/gantry-project/gantry/test/instance"
	"github.com/gantry-project/gantry/test/netns"
	"github.com/gantry-project/gantry/test/process"
	"github.com/gantry-project/gantry/test/up"
)

// image is what Pods run.
const image = "docker.io/library/busybox:1.28"

// What the cluster has of addresses in one family and in two.
const (
	clusterCIDR   = "10.71.0.0/16"
	clusterCIDRs  = clusterCIDR + ",fd71::/48"
	serviceRanges = "10.96.0.0/16,fd96::/112"
)

// testLab is the nodes and the router between their segments.
type testLab struct {
	t       *testing.T
	bin     string
	dir     string
	archive string
	cluster string // addresses of Pods
	ending  bool   // certificates that nodes had asked for are about to end
	router  ns.NetNS
	nodes   map[string]*machine
}

// machine is one node.
type machine struct {
	*up.Roles
	lab  *testLab
	name string
	ip   string
	ip6  string
	dir  string
	ns   ns.NetNS
}

func newLab(t *testing.T) *testLab {
	t.Helper()
	bin := binaries.Programs(t)
	dir, err := os.MkdirTemp("/tmp", "gantry-nodes-")
	if err != nil {
		t.Fatal(err)
	}
	l := &testLab{t: t, bin: bin, dir: dir, archive: filepath.Join(dir, "images.tar"), cluster: clusterCIDR,
		nodes: map[string]*machine{}}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("data directories: %v, want no error", err)
		}
	})
	if err := images.Archive(l.archive, images.Select(images.Standard(), image)); err != nil {
		t.Fatal(err)
	}
	l.router = netns.New(l.t)
	l.sh(l.router, `sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1; ip link set lo up
		for s in 1 2; do ip link add gxb$s type bridge; ip addr add 10.171.$s.254/24 dev gxb$s;
		ip addr add fd10:171:$s::254/64 dev gxb$s nodad; ip link set gxb$s up; done`)
	return l
}

func (l *testLab) sh(n ns.NetNS, script string) string {
	l.t.Helper()
	return netns.MustRun(l.t, n, script)
}

// machine makes a node on a segment and has it removed, and checked for leftovers, when the test
// ends.
func (l *testLab) machine(name string, segment, host int) *machine {
	l.t.Helper()
	m := &machine{lab: l, name: name, ip: fmt.Sprintf("10.171.%d.%d", segment, host),
		ip6: fmt.Sprintf("fd10:171:%d::%d", segment, host), dir: filepath.Join(l.dir, name), ns: netns.New(l.t)}
	m.Roles = &up.Roles{TB: l.t, Bin: l.bin, Log: filepath.Join(m.dir, "gantry.log"),
		Wrap: []string{"nsenter", "--net=" + m.ns.Path(), "--"}} // all but the network it shares with the host
	l.nodes[name] = m
	l.sh(l.router, fmt.Sprintf("ip link add to-%s type veth peer name up0 netns %s; ip link set to-%s master gxb%d up",
		name, m.ns.Path(), name, segment))
	m.sh(fmt.Sprintf("ip link set lo up; ip addr add %s/24 dev up0; ip addr add %s/64 dev up0 nodad; ip link set up0 "+
		"up; ip route add default via 10.171.%d.254; ip -6 route add default via fd10:171:%d::254",
		m.ip, m.ip6, segment, segment))
	l.t.Cleanup(m.remove)
	return m
}

func (m *machine) sh(script string) string { m.lab.t.Helper(); return m.lab.sh(m.ns, script) }

// end asks a process to end, and kills it when it does not.
func end(p *process.Process) {
	_ = p.End(time.Minute) // its report says how it ended
}

// addresses are the node's, in the families of the cluster.
func (m *machine) addresses() string {
	if strings.Contains(m.lab.cluster, ",") {
		return m.ip + "," + m.ip6
	}
	return m.ip
}

// up runs the control plane and a kubelet.
func (m *machine) up(flags ...string) {
	m.Start(append([]string{"up", "--data-dir", m.dir, "--node-name", m.name, "--node-ip", m.addresses(),
		"--bind-address", m.ip, "--bridge", "gxb" + m.name,
		"--cluster-cidr", m.lab.cluster, "-v=2"}, flags...)...)
}

// remove ends what runs on the node, has Gantry clean up, and looks for what is left.
func (m *machine) remove() {
	t := m.lab.t
	m.End()
	if out, err := m.Command("clean", "--data-dir", m.dir, "--bridge", "gxb"+m.name, "--node-ip",
		m.ip).CombinedOutput(); err != nil {
		t.Errorf("gantry clean on %s: %v\n%s", m.name, err, out)
	}
	if left := m.sh("ip -o link show | grep -v 'lo:\\|up0' || true; ip route show proto 0x47; nft list " +
		"tables"); strings.TrimSpace(left) != "" {
		t.Errorf("left in the network of %s:\n%s", m.name, left)
	}
	for _, left := range append(testinstance.Mounts(m.dir, instance.StateDir(m.dir)), up.Processes(m.dir)...) {
		t.Errorf("left behind: %s", left)
	}
	cgroups, _ := filepath.Glob("/sys/fs/cgroup/*/gantry-" + instance.ID(m.dir))
	more, _ := filepath.Glob("/sys/fs/cgroup/gantry-" + instance.ID(m.dir))
	if all := append(cgroups, more...); len(all) > 0 {
		t.Errorf("left of control groups: %v", all)
	}
}

// load puts the Pods' image on the node.
func (m *machine) load() {
	m.lab.t.Helper()
	m.Run("image", "import", "--data-dir", m.dir, m.lab.archive)
}

// kubectl runs kubectl on the node, with the cluster's administrator.
func (m *machine) kubectl(stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	own := m.Command(append([]string{"kubectl", "--kubeconfig", filepath.Join(m.dir, "kubeconfig")}, args...)...)
	cmd := exec.CommandContext(ctx, own.Path, own.Args[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m *machine) mustKubectl(stdin string, args ...string) string {
	m.lab.t.Helper()
	out, err := m.kubectl(stdin, args...)
	if err != nil {
		m.lab.t.Fatalf("kubectl %s: %v\n%s\n%s", strings.Join(args, " "), err, out, stdin)
	}
	return out
}

// eventually asks until it is so.
func (l *testLab) eventually(within time.Duration, what string, f func() (string, bool)) {
	l.t.Helper()
	var all []interface{ Failed() error }
	for _, m := range l.nodes {
		all = append(all, m.Roles)
	}
	up.Eventually(l.t, within, what, f, all...)
}

// inside does f in the network namespace of a Pod on this node, found by its lease.
func (m *machine) inside(pod string, f func() error) error {
	raw, err := os.ReadFile(filepath.Join(instance.StateDir(m.dir), "net", "leases.json"))
	if err != nil {
		return err
	}
	var book struct {
		Leases []struct{ Pod, Netns string }
	}
	if err := json.Unmarshal(raw, &book); err != nil {
		return err
	}
	for _, l := range book.Leases {
		if l.Pod == "default/"+pod {
			return ns.WithNetNSPath(l.Netns, func(ns.NetNS) error { return f() })
		}
	}
	return fmt.Errorf("no lease of Pod %s on %s", pod, m.name)
}

// ask opens a TCP connection to a web Pod's server from where it is called and returns what it
// answers.
func ask(to netip.AddrPort, patience time.Duration) (string, error) { return askAt("/", to, patience) }

// askAt asks for a path.
func askAt(path string, to netip.AddrPort, patience time.Duration) (string, error) {
	c, err := net.DialTimeout("tcp", to.String(), patience)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte("GET " + path + " HTTP/1.0\r\n\r\n")); err != nil {
		return "", err
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(c); err != nil {
		return "", err
	}
	_, body, _ := strings.Cut(b.String(), "\r\n\r\n")
	return strings.TrimSpace(body), nil
}

// fromPod asks from inside a Pod; fromNode from the node itself.
func (m *machine) fromPod(pod string, to netip.AddrPort, patience time.Duration) (answer string, err error) {
	return m.fromPodAt(pod, "/", to, patience)
}

func (m *machine) fromPodAt(pod, path string, to netip.AddrPort, patience time.Duration) (answer string, err error) {
	err = m.inside(pod, func() (err error) { answer, err = askAt(path, to, patience); return err })
	return answer, err
}

func (m *machine) fromNode(to netip.AddrPort, patience time.Duration) (answer string, err error) {
	err = m.ns.Do(func(ns.NetNS) (err error) { answer, err = ask(to, patience); return err })
	return answer, err
}
