package app

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gantry-project/gantry/internal/cri"
)

// place is where an instance lives on its machine: what must differ between two of them.
type place struct {
	dataDir     string
	bindAddress string
	securePort  int
	kubeletPort int
	nodeName    string
	nodeIP      string
	bridge      string
	podCIDR     string
	serviceCIDR string
	cniConfDir  string
	binDir      string
	runtime     string
	keeping
	entrance
	cri cri.Options // what the kubelet's configuration says of the runtime's sockets
}

func (p *place) dataFlag(f *pflag.FlagSet) {
	f.StringVar(&p.dataDir, "data-dir", defaultDataDir, "directory of everything this instance keeps")
}

func (p *place) serverFlags(f *pflag.FlagSet) {
	f.StringVar(&p.bindAddress, "bind-address", "0.0.0.0", "address the API server listens on")
	f.IntVar(&p.securePort, "secure-port", 6443, "port of the API server")
	f.StringVar(&p.serviceCIDR, "service-cluster-ip-range", "10.96.0.0/16", "addresses that Services get")
	p.entrance.flags(f)
	p.keeping.flags(f)
}

func (p *place) nodeFlags(f *pflag.FlagSet) {
	f.IntVar(&p.kubeletPort, "kubelet-port", 10250, "port of the kubelet's API")
	f.StringVar(&p.nodeName, "node-name", "", "name of this node (default: the host's name)")
	f.StringVar(&p.nodeIP, "node-ip", "", "address of this node (default: that of the default route)")
	f.StringVar(&p.bridge, "bridge", "gantry0", "bridge of Gantry's own Pod network")
	f.StringVar(&p.podCIDR, "pod-cidr", "10.72.0.0/16", "addresses that Pods of this node get")
	f.StringVar(&p.cniConfDir, "cni-conf-dir", "", "directory with the Pod network's configuration; Gantry writes its own when none is there (default: DATA-DIR/cni/net.d)")
	f.StringVar(&p.binDir, "bin-dir", "", "directory of runc, the containerd shim, pause and cni/ (default: where gantry is)")
	f.StringVar(&p.runtime, "container-runtime-endpoint", "", "CRI socket of a runtime that runs already (default: Gantry starts containerd)")
}

// complete fills in what was not given and checks what was.
func (p *place) complete() error {
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
		return usageError{fmt.Errorf("--node-name %q: %s", p.nodeName, errs[0])}
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
			return usageError{fmt.Errorf("%s %d: must be between 1 and 65535", port.flag, port.n)}
		}
	}
	if err := p.keeping.complete(); err != nil {
		return err
	}
	return p.completeAddresses()
}

func (p *place) completeAddresses() error {
	if p.nodeIP == "" {
		p.nodeIP = hostAddress()
	} else if _, err := netip.ParseAddr(p.nodeIP); err != nil {
		return usageError{fmt.Errorf("--node-ip %q: not an address", p.nodeIP)}
	}
	if p.bindAddress != "" {
		if _, err := netip.ParseAddr(p.bindAddress); err != nil {
			return usageError{fmt.Errorf("--bind-address %q: not an address", p.bindAddress)}
		}
	}
	if p.serviceCIDR != "" {
		if _, err := netip.ParsePrefix(p.serviceCIDR); err != nil {
			return usageError{fmt.Errorf("--service-cluster-ip-range %q: not a range such as 10.96.0.0/16", p.serviceCIDR)}
		}
	}
	return nil
}

// hostAddress is the address of the default route's interface, else the first one that is not loopback, else loopback.
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
func (p *place) firstServiceIP() string {
	prefix, err := netip.ParsePrefix(p.serviceCIDR)
	if err != nil {
		return ""
	}
	return prefix.Masked().Addr().Next().String()
}

// serverURL is where clients on this machine reach the API server.
func (p *place) serverURL() string {
	host := p.bindAddress
	if a, err := netip.ParseAddr(host); err != nil || a.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "https://" + net.JoinHostPort(host, fmt.Sprint(p.securePort))
}
