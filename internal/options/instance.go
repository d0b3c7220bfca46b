package options

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/cri"
)

// Instance is where an instance lives on its machine: what must differ between two of them.
type Instance struct {
	DataDir     string
	BindAddress string
	SecurePort  int
	KubeletPort int
	NodeName    string
	NodeIP      string
	OtherIP     string // the node's address of the other family; empty: it has none
	ServiceCIDR string // one range, or one of each family with a comma between
	PodNetwork  PodNetwork
	dirs        directories
	Runtime     string
	Storage     Storage
	APIServer   APIServer
	CRI         cri.Options // what the kubelet's configuration says of the runtime's sockets
	// SystemdCgroup has the instance's own container runtime use the cgroup driver systemd.
	SystemdCgroup bool
}

// directories are others than that of the data.
type directories struct {
	bin  string // of programs
	root string // of the kubelet, as the flag says; empty: see KubeletDir
}

func (p *Instance) DataFlag(f *pflag.FlagSet) {
	f.StringVar(&p.DataDir, "data-dir", cli.DefaultDataDir, "directory of everything this instance keeps")
}

func (p *Instance) ServerFlags(f *pflag.FlagSet) {
	f.StringVar(&p.BindAddress, "bind-address", "0.0.0.0", "address the API server listens on")
	f.IntVar(&p.SecurePort, "secure-port", 6443, "port of the API server")
	f.StringVar(&p.ServiceCIDR, "service-cluster-ip-range", "10.96.0.0/16",
		"addresses that Services get: one range, or an IPv4 and an IPv6 one with a comma between; the first is what "+
			"Services get that do not ask")
	p.APIServer.flags(f)
	p.Storage.flags(f)
}

func (p *Instance) NodeFlags(f *pflag.FlagSet) {
	f.IntVar(&p.KubeletPort, "kubelet-port", 10250, "port of the kubelet's API")
	f.StringVar(&p.NodeName, "node-name", "", "name of this node (default: the host's name)")
	f.StringVar(&p.NodeIP, "node-ip", "",
		"address of this node, or one of each family with a comma between (default: that of the default route)")
	p.PodNetwork.flags(f)
	f.StringVar(&p.dirs.bin, "bin-dir", "",
		"directory of runc, the containerd shim, pause and cni/ (default: where gantry is)")
	f.StringVar(&p.dirs.root, "root-dir", "",
		"directory of the kubelet: Pods, volumes, sockets of plugins; manifests of CSI drivers name /var/lib/kubelet "+
			"(default: that of an earlier start, else kubelet in the data directory)")
	f.StringVar(&p.Runtime, "container-runtime-endpoint", "",
		"CRI socket of a runtime that runs already (default: Gantry starts containerd)")
}

// Complete fills in what was not given and checks what was.
func (p *Instance) Complete() error {
	abs, err := filepath.Abs(p.DataDir)
	if err != nil {
		return err
	}
	p.DataDir = abs
	if p.NodeName == "" {
		host, err := os.Hostname()
		if err != nil {
			return cli.WithFix(fmt.Errorf("this host has no name: %w", err), "give one with --node-name")
		}
		p.NodeName = strings.ToLower(host)
	}
	if errs := validation.IsDNS1123Subdomain(p.NodeName); len(errs) > 0 {
		return cli.UsageError(fmt.Errorf("--node-name %q: %s", p.NodeName, errs[0]))
	}
	if p.dirs.bin == "" {
		exe, err := os.Executable()
		if err != nil {
			return err
		}
		p.dirs.bin = filepath.Dir(exe)
	}
	for _, port := range []struct {
		flag string
		n    int
	}{{"--secure-port", p.SecurePort}, {"--kubelet-port", p.KubeletPort}} {
		if port.n < 0 || port.n > 65535 {
			return cli.UsageError(fmt.Errorf("%s %d: must be between 1 and 65535", port.flag, port.n))
		}
	}
	if err := p.APIServer.Gates.complete(); err != nil {
		return err
	}
	if err := p.Storage.Complete(); err != nil {
		return err
	}
	if err := p.completeRootDir(); err != nil {
		return err
	}
	if err := p.PodNetwork.Check(); err != nil {
		return err
	}
	return p.completeAddresses()
}

func (p *Instance) completeAddresses() error {
	if p.NodeIP == "" {
		p.NodeIP = HostAddress()
	} else if err := p.splitNodeIP(); err != nil {
		return err
	}
	if p.BindAddress != "" {
		if _, err := netip.ParseAddr(p.BindAddress); err != nil {
			return cli.UsageError(fmt.Errorf("--bind-address %q: not an address", p.BindAddress))
		}
	}
	if p.ServiceCIDR != "" {
		if _, err := p.ServiceRanges(); err != nil {
			return cli.UsageError(err)
		}
	}
	return nil
}

// splitNodeIP takes the pair of --node-ip apart.
func (p *Instance) splitNodeIP() error {
	first, second, two := strings.Cut(p.NodeIP, ",")
	a, err := netip.ParseAddr(strings.TrimSpace(first))
	if err != nil {
		return cli.UsageError(fmt.Errorf("--node-ip %q: not an address", p.NodeIP))
	}
	p.NodeIP = a.String()
	if !two {
		return nil
	}
	b, err := netip.ParseAddr(strings.TrimSpace(second))
	if err != nil || a.Is4() == b.Is4() {
		return cli.UsageError(
			fmt.Errorf("--node-ip %q: must be one address, or an IPv4 and an IPv6 one with a comma between",
				first+","+second))

	}
	p.OtherIP = b.String()
	return nil
}

// NodeIPs are the node's addresses, that of its first family first.
func (p *Instance) NodeIPs() []string {
	if p.OtherIP == "" {
		return []string{p.NodeIP}
	}
	return []string{p.NodeIP, p.OtherIP}
}

// NodeAddresses are the same as a Node's status has them.
func (p *Instance) NodeAddresses() []v1.NodeAddress {
	var out []v1.NodeAddress
	for _, ip := range p.NodeIPs() {
		out = append(out, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip})
	}
	return out
}

// ServiceRanges are those of --service-cluster-ip-range, one or two.
func (p *Instance) ServiceRanges() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for part := range strings.SplitSeq(p.ServiceCIDR, ",") {
		r, err := netip.ParsePrefix(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("--service-cluster-ip-range %q: not a range such as 10.96.0.0/16", part)
		}
		out = append(out, r.Masked())
	}
	if len(out) > 2 || len(out) == 2 && out[0].Addr().Is4() == out[1].Addr().Is4() {
		return nil, fmt.Errorf("--service-cluster-ip-range %q: must be one range, or an IPv4 and an IPv6 one",
			p.ServiceCIDR)
	}
	return out, nil
}

// HostAddress is the address of the default route's interface, else the first one that is not
// loopback, else loopback.
func HostAddress() string {
	if ip, err := utilnet.ChooseHostInterface(); err == nil {
		return ip.String()
	}
	addrs, err := net.InterfaceAddrs()
	if err == nil {
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
				return n.IP.String()
			}
		}
	}
	return "127.0.0.1"
}

// firstServiceIP is the address of the kubernetes Service: the first of the range.
func (p *Instance) firstServiceIP() string {
	ranges, err := p.ServiceRanges()
	if err != nil {
		return ""
	}
	return ranges[0].Addr().Next().String()
}

// advertisedURL is where clients on other machines reach it.
func (p *Instance) advertisedURL() string {
	host := p.BindAddress
	if a, err := netip.ParseAddr(host); err != nil || a.IsUnspecified() {
		host = p.NodeIP
	}
	return "https://" + net.JoinHostPort(host, fmt.Sprint(p.SecurePort))
}

// ServerURL is where clients on this machine reach the API server.
func (p *Instance) ServerURL() string {
	host := p.BindAddress
	if a, err := netip.ParseAddr(host); err != nil || a.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "https://" + net.JoinHostPort(host, fmt.Sprint(p.SecurePort))
}

// RuntimeEndpoint is the runtime's socket: the named one, or that of the instance's own containerd.
func (p *Instance) RuntimeEndpoint() string {
	if p.Runtime != "" {
		return p.Runtime
	}
	return p.ContainerdConfig().Endpoint()
}
