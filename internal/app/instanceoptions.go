package app

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

	"github.com/gantry-project/gantry/internal/cri"
)

// instanceOptions is where an instance lives on its machine: what must differ between two of them.
type instanceOptions struct {
	dataDir     string
	bindAddress string
	securePort  int
	kubeletPort int
	nodeName    string
	nodeIP      string
	otherIP     string // the node's address of the other family; empty: it has none
	serviceCIDR string // one range, or one of each family with a comma between
	podNetwork  podNetworkOptions
	binDir      string
	runtime     string
	storage     storageOptions
	apiServer   apiServerOptions
	cri         cri.Options // what the kubelet's configuration says of the runtime's sockets
}

func (p *instanceOptions) dataFlag(f *pflag.FlagSet) {
	f.StringVar(&p.dataDir, "data-dir", defaultDataDir, "directory of everything this instance keeps")
}

func (p *instanceOptions) serverFlags(f *pflag.FlagSet) {
	f.StringVar(&p.bindAddress, "bind-address", "0.0.0.0", "address the API server listens on")
	f.IntVar(&p.securePort, "secure-port", 6443, "port of the API server")
	f.StringVar(&p.serviceCIDR, "service-cluster-ip-range", "10.96.0.0/16",
		"addresses that Services get: one range, or an IPv4 and an IPv6 one with a comma between; the first is what "+
			"Services get that do not ask")
	p.apiServer.flags(f)
	p.storage.flags(f)
}

func (p *instanceOptions) nodeFlags(f *pflag.FlagSet) {
	f.IntVar(&p.kubeletPort, "kubelet-port", 10250, "port of the kubelet's API")
	f.StringVar(&p.nodeName, "node-name", "", "name of this node (default: the host's name)")
	f.StringVar(&p.nodeIP, "node-ip", "",
		"address of this node, or one of each family with a comma between (default: that of the default route)")
	p.podNetwork.flags(f)
	f.StringVar(&p.binDir, "bin-dir", "",
		"directory of runc, the containerd shim, pause and cni/ (default: where gantry is)")
	f.StringVar(&p.runtime, "container-runtime-endpoint", "",
		"CRI socket of a runtime that runs already (default: Gantry starts containerd)")
}

// complete fills in what was not given and checks what was.
func (p *instanceOptions) complete() error {
	abs, err := filepath.Abs(p.dataDir)
	if err != nil {
		return err
	}
	p.dataDir = abs
	if p.nodeName == "" {
		host, err := os.Hostname()
		if err != nil {
			return withFix(fmt.Errorf("this host has no name: %w", err), "give one with --node-name")
		}
		p.nodeName = strings.ToLower(host)
	}
	if errs := validation.IsDNS1123Subdomain(p.nodeName); len(errs) > 0 {
		return usageError(fmt.Errorf("--node-name %q: %s", p.nodeName, errs[0]))
	}
	if p.binDir == "" {
		exe, err := os.Executable()
		if err != nil {
			return err
		}
		p.binDir = filepath.Dir(exe)
	}
	for _, port := range []struct {
		flag string
		n    int
	}{{"--secure-port", p.securePort}, {"--kubelet-port", p.kubeletPort}} {
		if port.n < 0 || port.n > 65535 {
			return usageError(fmt.Errorf("%s %d: must be between 1 and 65535", port.flag, port.n))
		}
	}
	if err := p.apiServer.gates.complete(); err != nil {
		return err
	}
	if err := p.storage.complete(); err != nil {
		return err
	}
	if err := p.podNetwork.check(); err != nil {
		return err
	}
	return p.completeAddresses()
}

func (p *instanceOptions) completeAddresses() error {
	if p.nodeIP == "" {
		p.nodeIP = hostAddress()
	} else if err := p.splitNodeIP(); err != nil {
		return err
	}
	if p.bindAddress != "" {
		if _, err := netip.ParseAddr(p.bindAddress); err != nil {
			return usageError(fmt.Errorf("--bind-address %q: not an address", p.bindAddress))
		}
	}
	if p.serviceCIDR != "" {
		if _, err := p.serviceRanges(); err != nil {
			return usageError(err)
		}
	}
	return nil
}

// splitNodeIP takes the pair of --node-ip apart.
func (p *instanceOptions) splitNodeIP() error {
	first, second, two := strings.Cut(p.nodeIP, ",")
	a, err := netip.ParseAddr(strings.TrimSpace(first))
	if err != nil {
		return usageError(fmt.Errorf("--node-ip %q: not an address", p.nodeIP))
	}
	p.nodeIP = a.String()
	if !two {
		return nil
	}
	b, err := netip.ParseAddr(strings.TrimSpace(second))
	if err != nil || a.Is4() == b.Is4() {
		return usageError(
			fmt.Errorf("--node-ip %q: must be one address, or an IPv4 and an IPv6 one with a comma between",
				first+","+second))

	}
	p.otherIP = b.String()
	return nil
}

// nodeIPs are the node's addresses, that of its first family first.
func (p *instanceOptions) nodeIPs() []string {
	if p.otherIP == "" {
		return []string{p.nodeIP}
	}
	return []string{p.nodeIP, p.otherIP}
}

// nodeAddresses are the same as a Node's status has them.
func (p *instanceOptions) nodeAddresses() []v1.NodeAddress {
	var out []v1.NodeAddress
	for _, ip := range p.nodeIPs() {
		out = append(out, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip})
	}
	return out
}

// serviceRanges are those of --service-cluster-ip-range, one or two.
func (p *instanceOptions) serviceRanges() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for part := range strings.SplitSeq(p.serviceCIDR, ",") {
		r, err := netip.ParsePrefix(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("--service-cluster-ip-range %q: not a range such as 10.96.0.0/16", part)
		}
		out = append(out, r.Masked())
	}
	if len(out) > 2 || len(out) == 2 && out[0].Addr().Is4() == out[1].Addr().Is4() {
		return nil, fmt.Errorf("--service-cluster-ip-range %q: must be one range, or an IPv4 and an IPv6 one",
			p.serviceCIDR)
	}
	return out, nil
}

// hostAddress is the address of the default route's interface, else the first one that is not
// loopback, else loopback.
func hostAddress() string {
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
func (p *instanceOptions) firstServiceIP() string {
	ranges, err := p.serviceRanges()
	if err != nil {
		return ""
	}
	return ranges[0].Addr().Next().String()
}

// advertisedURL is where clients on other machines reach it.
func (p *instanceOptions) advertisedURL() string {
	host := p.bindAddress
	if a, err := netip.ParseAddr(host); err != nil || a.IsUnspecified() {
		host = p.nodeIP
	}
	return "https://" + net.JoinHostPort(host, fmt.Sprint(p.securePort))
}

// serverURL is where clients on this machine reach the API server.
func (p *instanceOptions) serverURL() string {
	host := p.bindAddress
	if a, err := netip.ParseAddr(host); err != nil || a.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "https://" + net.JoinHostPort(host, fmt.Sprint(p.securePort))
}

// runtimeEndpoint is the runtime's socket: the named one, or that of the instance's own containerd.
func (p *instanceOptions) runtimeEndpoint() string {
	if p.runtime != "" {
		return p.runtime
	}
	return p.containerdConfig().Endpoint()
}
