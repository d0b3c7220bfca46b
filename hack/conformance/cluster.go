package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
)

const (
	dataDirs     = "/tmp/gantry-conf"       // short: sockets are below it
	diskDirs     = "/tmp/gantry-conf-disks" // of the disks of storage
	clusterCIDR  = "10.176.0.0/14"
	registryPort = "5050" // 5000 is what tests give to a registry of their own
)

// kubeletConfig is the configuration of the joining node; see docs/user/joining.md.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
serverTLSBootstrap: true
authentication: {x509: {clientCAFile: %s}}
clusterDNS: [10.96.0.10]
`

// cluster is two nodes, each in a network namespace, with a veth between them, so that nothing
// conflicts with the rest of the machine.
type cluster struct {
	bin, logs    string
	disks        bool // local volumes are on a disk of their own, with xfs
	first, other *node
	servers      []*http.Server
}

type node struct {
	cluster       *cluster
	name, ip, dir string
	machine       *machine // nil: it has the host's mounts and process ids
	processes     []*process
}

// process is a component of Gantry that runs on a node.
type process struct {
	cmd     *exec.Cmd
	machine bool // in a machine of the node's own
	exited  chan struct{}
}

func (n *node) netns() string            { return "/run/netns/gantry-" + n.name }
func (n *node) in(name string) string    { return filepath.Join(n.dir, name) }
func (c *cluster) kubeconfig() string    { return c.first.in("kubeconfig") }
func (c *cluster) gantry() string        { return filepath.Join(c.bin, "gantry") }
func (c *cluster) nodes() []*node        { return []*node{c.first, c.other} }
func (c *cluster) bridge(n *node) string { return "gx" + n.name }

// command returns a command in a node's network namespace.
func (n *node) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + n.netns(), "--", program}, args...)...)
}

// start creates the namespaces, serves the images on both nodes' loopback, and runs both nodes
// until they are Ready. After an error the caller calls remove.
func (c *cluster) start(ctx context.Context, images http.Handler, flags ...string) error {
	c.first = &node{cluster: c, name: "conf-1", ip: "10.171.250.1", dir: filepath.Join(dataDirs, "1")}
	c.other = &node{cluster: c, name: "conf-2", ip: "10.171.250.2", dir: filepath.Join(dataDirs, "2")}
	if err := c.remove(); err != nil { // left over from a killed run
		return err
	}
	for _, n := range c.nodes() {
		if err := n.prepare(images); err != nil {
			return err
		}
		if c.disks {
			if err := errors.Join(n.addDisk(ctx), n.beginMachine()); err != nil {
				return err
			}
		}
	}
	cable, routes := "ip link add up0 netns gantry-conf-1 type veth peer name up0 netns gantry-conf-2", ""
	for i, n := range c.nodes() {
		cable += fmt.Sprintf("; ip -n gantry-%[1]s addr add %[2]s/24 dev up0; ip -n gantry-%[1]s link set up0 up",
			n.name, n.ip)
		// a host without one cannot ask for a cluster IP
		routes += fmt.Sprintf("; ip -n gantry-%s route add default via %s", n.name, c.nodes()[1-i].ip)
	}
	if _, err := output(ctx, "", "sh", "-euc", cable+routes); err != nil {
		return err
	}
	step("starting gantry up and a second node")
	up := []string{"up", "--node-name", c.first.name, "--node-ip", c.first.ip, "--bind-address", c.first.ip,
		"--bridge", c.bridge(c.first), "--cluster-cidr", clusterCIDR, "--stop-pods"}
	err := c.first.run("up", slices.Concat(up, flags, c.first.rootFlags())...)
	if err != nil {
		return err
	}
	if err := c.until(ctx, time.Minute, "the API server answers",
		func() bool { _, err := c.kubectl(ctx, "get", "--raw", "/readyz"); return err == nil }); err != nil {
		return err
	}
	if _, err := c.kubectl(ctx, "apply", "-f", "docs/examples/join.yaml"); err != nil {
		return err
	}
	if err := c.join(ctx); err != nil {
		return err
	}
	return c.until(ctx, 2*time.Minute, "both nodes are Ready", func() bool {
		c.approve(ctx)
		out, _ := c.kubectl(ctx, "get", "nodes", "-o",
			`jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status} {end}`)
		serving, _ := c.kubectl(ctx, "get", "csr", "-o",
			`jsonpath={range .items[?(@.spec.signerName=="kubernetes.io/kubelet-serving")]}{.status.certificate}{end}`)
		return out == "True True " && serving != ""
	})
}

// prepare makes a node's network namespace and data directory, and serves the images on its
// loopback.
func (n *node) prepare(images http.Handler) error {
	ctx := context.Background()
	if _, err := output(ctx, "", "sh", "-euc",
		fmt.Sprintf("ip netns add gantry-%[1]s; ip -n gantry-%[1]s link set lo up", n.name)); err != nil {
		return err
	}
	hosts := n.in("containerd/certs.d/" + host)
	if err := os.MkdirAll(hosts, 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf("server = \"http://127.0.0.1:%[1]s\"\n[host.\"http://127.0.0.1:%[1]s\"]\n  capabilities = "+
		"[\"pull\", \"resolve\"]\n", registryPort)
	if err := os.WriteFile(filepath.Join(hosts, "hosts.toml"), []byte(text), 0o644); err != nil {
		return err
	}
	var l net.Listener
	err := ns.WithNetNSPath(n.netns(), func(ns.NetNS) (err error) {
		l, err = net.Listen("tcp", "127.0.0.1:"+registryPort)
		return err
	})
	if err != nil {
		return fmt.Errorf("registry on %s: %w", n.name, err)
	}
	s := &http.Server{Handler: images}
	n.cluster.servers = append(n.cluster.servers, s)
	go func() { _ = s.Serve(l) }() // ends with ErrServerClosed
	return nil
}

// run starts a component on the node; its log is NODE-NAME.log.
func (n *node) run(name string, args ...string) error {
	return n.runProgram(name, n.cluster.gantry(), append(args, "--data-dir", n.dir)...)
}

// runProgram runs a program on the node, until the cluster is taken away.
func (n *node) runProgram(name, program string, args ...string) error {
	log, err := os.Create(filepath.Join(n.cluster.logs, n.name+"-"+name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	p := &process{cmd: n.inside(context.Background(), program, args...), machine: n.machine != nil,
		exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this program, which stops them in order
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() { _ = p.cmd.Wait(); close(p.exited) }()
	n.processes = append(n.processes, p)
	return nil
}

// join has the second node join with a bootstrap token, as docs/user/joining.md says.
func (c *cluster) join(ctx context.Context) error {
	n := c.other
	for from, to := range map[string]string{"pki/ca.crt": "ca.crt", "proxy.kubeconfig": "proxy.kubeconfig",
		"network.kubeconfig": "network.kubeconfig"} {
		raw, err := os.ReadFile(c.first.in(from))
		if err != nil {
			return err
		}
		if err := os.WriteFile(n.in(to), raw, 0o600); err != nil {
			return err
		}
	}
	if err := os.WriteFile(n.in("kubelet.yaml"), fmt.Appendf(nil, kubeletConfig, n.in("ca.crt")), 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"set-cluster", "join", "--server=https://" + c.first.ip + ":6443", "--embed-certs",
			"--certificate-authority=" + n.in("ca.crt")},
		{"set-credentials", "join", "--token=abcdef.0123456789abcdef"},
		{"set-context", "join", "--user=join", "--cluster=join"}, {"use-context", "join"},
	} {
		if _, err := output(ctx, "", c.gantry(),
			append([]string{"kubectl", "--kubeconfig", n.in("bootstrap.kubeconfig"), "config"}, args...)...); err !=
			nil {
			return err
		}
	}
	args := []string{"kubelet", "--bootstrap-kubeconfig", n.in("bootstrap.kubeconfig"), "--kubeconfig",
		n.in("node.kubeconfig"), "--config", n.in("kubelet.yaml"),
		"--network-kubeconfig", n.in("network.kubeconfig"), "--hostname-override", n.name, "--node-ip", n.ip,
		"--bridge", c.bridge(n), "--cluster-cidr", clusterCIDR}
	if err := n.run("kubelet", append(args, n.rootFlags()...)...); err != nil {
		return err
	}
	return n.run("proxy", "proxy", "--kubeconfig", n.in("proxy.kubeconfig"), "--hostname-override", n.name,
		"--cluster-cidr", clusterCIDR)
}

// approve approves the second node's certificate requests.
func (c *cluster) approve(ctx context.Context) {
	out, _ := c.kubectl(ctx, "get", "csr", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.status.conditions[*].type}{"\n"}{end}`)
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 1 {
			_, _ = c.kubectl(ctx, "certificate", "approve", f[0])
		}
	}
}

// kubectl runs Gantry's kubectl as the cluster's administrator.
func (c *cluster) kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := c.first.command(ctx, c.gantry(), append([]string{"kubectl", "--kubeconfig", c.kubeconfig()}, args...)...)
	return output(ctx, "", cmd.Args[0], cmd.Args[1:]...)
}

// until polls so until it returns true, a component of Gantry ends, or the time is over.
func (c *cluster) until(ctx context.Context, within time.Duration, what string, so func() bool) error {
	end := time.Now().Add(within)
	for !so() {
		for _, n := range c.nodes() {
			for _, p := range n.processes {
				select {
				case <-p.exited:
					return fmt.Errorf("%s on %s ended: see %s", strings.Join(p.cmd.Args[3:5], " "), n.name, c.logs)
				default:
				}
			}
		}
		if time.Now().After(end) {
			return fmt.Errorf("not within %s: %s; the logs are in %s", within, what, c.logs)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return nil
}

// remove stops the nodes and removes everything they made, also of a killed run: Pods, mounts,
// interfaces, namespaces, data.
func (c *cluster) remove() error {
	var all []error
	for _, n := range []*node{c.other, c.first} {
		for i := len(n.processes) - 1; i >= 0; i-- {
			n.processes[i].end()
		}
		_, noNetwork := os.Stat(n.netns())
		_, noData := os.Stat(n.dir)
		if noNetwork == nil && noData == nil {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			if n.machine == nil { // it went with the run that was killed; what lies there is the host's
				_ = os.Remove(n.in("kubelet")) // a directory with anything in it stays
			}
			clean := n.inside(ctx, c.gantry(), "clean", "--data-dir", n.dir, "--bridge", c.bridge(n), "--node-ip",
				n.ip)
			_, err := output(ctx, "", clean.Args[0], clean.Args[1:]...)
			cancel()
			all = append(all, err)
		}
		n.machine.end()
	}
	for _, s := range c.servers {
		all = append(all, s.Close())
	}
	all = append(all, removeDisks())
	for _, n := range c.nodes() {
		if _, err := os.Stat(n.netns()); err == nil {
			_, err := output(context.Background(), "", "ip", "netns", "delete", "gantry-"+n.name)
			all = append(all, err)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if all = append(all, err); strings.Contains(string(mounts), " "+dataDirs+"/") {
		// what is mounted there may be the host's
		all = append(all, fmt.Errorf("something is still mounted below %s: it stays", dataDirs))
	}
	if err := errors.Join(all...); err != nil {
		return err
	}
	return os.RemoveAll(dataDirs)
}

func (p *process) end() {
	_ = syscall.Kill(p.pid(), syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(time.Minute):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}
