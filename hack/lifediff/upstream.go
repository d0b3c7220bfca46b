package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/gantry-project/gantry/internal/containerd"
	node "github.com/gantry-project/gantry/internal/instance"
	"github.com/gantry-project/gantry/internal/pki"
	"github.com/gantry-project/gantry/test/instance"
	"github.com/gantry-project/gantry/test/netns"
	"github.com/gantry-project/gantry/test/process"
)

// upstreamConfig is what the configuration of upstream's kubelet has beside what both have. The
// machine may have version 1 of control groups.
const upstreamConfig = `failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /%[2]s
containerRuntimeEndpoint: %[3]s
podLogsDir: %[1]s/pods
oomScoreAdj: 0
failSwapOn: false
tlsCertFile: %[1]s/pki/kubelet.crt
tlsPrivateKeyFile: %[1]s/pki/kubelet.key
authentication: {x509: {clientCAFile: %[1]s/pki/ca.crt}}
authorization: {mode: AlwaysAllow}
`

// podNetwork is the network of upstream's Pods, of the standard plugins.
const podNetwork = `{"cniVersion":"1.0.0","name":"pods","plugins":[
 {"type":"bridge","bridge":"pods0","isGateway":true,"hairpinMode":true,
  "ipam":{"type":"host-local","dataDir":"%s/cni/ipam","ranges":[[{"subnet":"%s"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
 {"type":"portmap","backend":"nftables","snat":true,"capabilities":{"portMappings":true}}]}
`

// upstreamMachine is the node of upstream's kubelet.
type upstreamMachine struct {
	options options
	dir     string
	netns   string
	ns      ns.NetNS
	config  string
	runtime *process.Process
	agent   *process.Process
	proxies []net.Listener
	logs    *os.File
}

// newUpstream makes the node's network and its files; nothing runs yet.
func newUpstream(o options) (*upstreamMachine, error) {
	if o.kubelet == "" {
		return nil, errors.New("name upstream's kubelet with -kubelet (make lifediff builds it)")
	}
	dir, err := os.MkdirTemp("", "gantry-origin-")
	if err != nil {
		return nil, err
	}
	u := &upstreamMachine{options: o, dir: dir, netns: filepath.Join(dir, "netns")}
	if u.ns, err = netns.Add(u.netns); err != nil {
		return u, err
	}
	cable := fmt.Sprintf("ip link add up0 type veth peer name up0 netns %s; ip addr add %s/24 dev up0; "+
		"ip link set up0 up", u.netns, gantryIP)
	if out, err := exec.Command("sh", "-euc", cable).CombinedOutput(); err != nil {
		return u, fmt.Errorf("link between the nodes: %w\n%s", err, out)
	}
	_, err = netns.Run(u.ns, fmt.Sprintf("ip link set lo up; ip addr add %s/24 dev up0; ip link set up0 up; "+
		"ip route add default via %s", upstreamIP, gantryIP))
	return u, err
}

// inside is a command in the node's network.
func (u *upstreamMachine) inside(program string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=" + u.netns, "--", program}, args...)...)
}

// serve makes the registry answer at the same loopback address on this node.
func (u *upstreamMachine) serve(addr string) error {
	return u.ns.Do(func(ns.NetNS) error {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		u.proxies = append(u.proxies, l)
		go func() {
			for {
				from, err := l.Accept()
				if err != nil {
					return
				}
				go forward(from, addr)
			}
		}()
		return nil
	})
}

// forward connects a caller with addr in this process's own network.
func forward(from net.Conn, addr string) {
	defer from.Close()
	to, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer to.Close()
	go func() { _, _ = io.Copy(to, from); _ = to.(*net.TCPConn).CloseWrite() }()
	_, _ = io.Copy(from, to)
}

// start runs containerd and the kubelet as a node of the cluster.
func (u *upstreamMachine) start(ctx context.Context, cluster *instance.Instance) error {
	for _, name := range []string{"ca.crt", "ca.key"} {
		raw, err := os.ReadFile(filepath.Join(cluster.PKI(), name))
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(u.dir, "pki"), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(u.dir, "pki", name), raw, 0o600); err != nil {
			return err
		}
	}
	files, err := pki.Ensure(filepath.Join(u.dir, "pki"), pki.Options{NodeName: upstreamNode,
		ExtraNames: []string{upstreamIP}})
	if err != nil {
		return err
	}
	material, err := files.Material(files.Node)
	if err != nil {
		return err
	}
	if err := pki.WriteKubeconfig(filepath.Join(u.dir, "kubeconfig"),
		fmt.Sprintf("https://%s:%d", gantryIP, cluster.Port()), material); err != nil {
		return err
	}
	group := "gantry-" + node.ID(u.dir)
	if err := makeControlGroups(group); err != nil {
		return err
	}
	more := fmt.Sprintf(upstreamConfig, u.dir, group, containerd.Config{DataDir: u.dir}.Endpoint())
	if u.config, err = writeConfig(u.dir, more); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(u.dir, "cni/net.d"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(u.dir, "cni/net.d/10-pods.conflist"),
		fmt.Appendf(nil, podNetwork, u.dir, upstreamPodRange), 0o644); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if u.runtime, err = process.Start(u.inside(self, "-containerd", u.dir, "-gantry", u.options.gantry)); err != nil {
		return err
	}
	if err := u.runtime.WaitOutput(ctx, containerdRuns); err != nil {
		return err
	}
	return u.kubelet(ctx, "start")
}

// kubelet stops or starts the kubelet alone.
func (u *upstreamMachine) kubelet(_ context.Context, what string) error {
	if what == "stop" {
		err := u.agent.End(time.Minute)
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			return nil
		}
		return err
	}
	log := filepath.Join(u.options.out, "kubelet.log")
	var err error
	if u.logs == nil {
		if u.logs, err = os.Create(log); err != nil {
			return err
		}
	}
	program, err := filepath.Abs(u.options.kubelet)
	if err != nil {
		return err
	}
	shell := `log=$1; shift; exec "$@" >>"$log" 2>&1`
	u.agent, err = process.Start(u.inside("sh", "-c", shell, "sh", log, program, "--config", u.config, "--kubeconfig",
		filepath.Join(u.dir, "kubeconfig"), "--hostname-override", upstreamNode, "--node-ip", upstreamIP, "--root-dir",
		filepath.Join(u.dir, "kubelet"), "--cert-dir", filepath.Join(u.dir, "certs"), "-v=3"), log)
	return err
}

// failed is an error when a process of the node has ended.
func (u *upstreamMachine) failed() error {
	return errors.Join(u.runtime.Failed(), u.agent.Failed())
}

// remove ends what runs on the node and takes away what it made.
func (u *upstreamMachine) remove() error {
	var errs []error
	for _, p := range []*process.Process{u.agent, u.runtime} {
		if p == nil {
			continue
		}
		if err := p.End(time.Minute); err != nil && !errors.As(err, new(*exec.ExitError)) {
			errs = append(errs, err)
		}
	}
	for _, l := range u.proxies {
		errs = append(errs, l.Close())
	}
	if u.logs != nil {
		errs = append(errs, u.logs.Close())
	}
	if u.ns != nil {
		out, err := u.inside(u.options.gantry, "clean", "--data-dir", u.dir, "--node-ip", upstreamIP,
			"--bridge", "pods0").CombinedOutput()
		if err != nil {
			errs = append(errs, fmt.Errorf("gantry clean: %w\n%s", err, out))
		}
		errs = append(errs, netns.Remove(u.netns, u.ns))
	}
	links, err := filepath.Glob("/var/log/containers/*")
	errs = append(errs, err)
	for _, link := range links { // upstream's kubelet makes them at this place alone
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, u.dir+"/") {
			errs = append(errs, os.Remove(link))
		}
	}
	return errors.Join(append(errs, os.RemoveAll(u.dir))...)
}

// makeControlGroups makes the group that the kubelet's are below, in every hierarchy.
func makeControlGroups(name string) error {
	const root = "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return os.MkdirAll(filepath.Join(root, name), 0o755)
	}
	hierarchies, err := filepath.Glob(filepath.Join(root, "*", "cgroup.procs"))
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		dir := filepath.Join(filepath.Dir(h), name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			raw, err := os.ReadFile(filepath.Join(filepath.Dir(h), file))
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, file), raw, 0o644)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// containerdRuns is what runContainerd prints when CRI answers.
const containerdRuns = "containerd answers"

// runContainerd runs a containerd as Gantry does, until ctx ends.
func runContainerd(ctx context.Context, o options) error {
	program, err := filepath.Abs(o.gantry)
	if err != nil {
		return err
	}
	c, err := containerd.Start(ctx, containerd.Config{DataDir: o.runtime, Executable: program})
	if err != nil {
		return err
	}
	fmt.Println(containerdRuns)
	<-ctx.Done()
	return c.Stop(context.WithoutCancel(ctx))
}
