package network

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/gantry-project/gantry/internal/instance"
	"github.com/gantry-project/gantry/internal/network/ipam"
)

// Defaults of Config.
const (
	DefaultBridge  = "gantry0"
	DefaultPodCIDR = "10.72.0.0/16"
	defaultConfDir = "cni/net.d" // below the data directory
)

// Config describes the network of one instance. DataDir and BinDir are required.
type Config struct {
	// DataDir is Gantry's data directory; the instance's id is derived from it.
	DataDir string
	// StateDir has the leases; default instance.StateDir(DataDir).
	StateDir string
	// Bridge is the bridge's name, at most 15 bytes; default gantry0.
	Bridge string
	// PodCIDR is the range of Pod addresses, or an IPv4 and an IPv6 one separated by a comma;
	// default 10.72.0.0/16.
	PodCIDR string
	// ConfDir is the container runtime's CNI configuration directory; default DataDir/cni/net.d.
	ConfDir string
	// BinDir has the gantry-cni program.
	BinDir string
	// MTU of the Pods' links in bytes; default: that of the interface with the default route, else
	// 1500.
	MTU int
	// ClusterCIDR is the range of all nodes' Pods, which contains PodCIDR; empty: there is one
	// node. Traffic inside of it is not masqueraded.
	ClusterCIDR string
	// TunnelOverhead is subtracted from the MTU, in bytes, for a tunnel between nodes.
	TunnelOverhead int
	// PolicySocket is the socket of the NetworkPolicy controller, which must know a Pod's address
	// before the Pod may run; empty: none.
	PolicySocket string
}

// settings is a checked and completed Config. The CNI plugin gets it as its configuration.
type settings struct {
	id             string
	store          ipam.Store
	bridge         string
	ranges         []netip.Prefix
	confDir        string
	binDir         string
	mtu            int
	cluster        []netip.Prefix
	tunnelOverhead int
	policySocket   string
}

func (c Config) settings() (settings, error) {
	if c.DataDir == "" {
		return settings{}, fmt.Errorf("the network needs a data directory")
	}
	dataDir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return settings{}, fmt.Errorf("data directory %q: %w", c.DataDir, err)
	}
	if c.StateDir == "" {
		c.StateDir = instance.StateDir(dataDir)
	}
	if c.Bridge == "" {
		c.Bridge = DefaultBridge
	}
	if len(c.Bridge) > 15 || strings.ContainsAny(c.Bridge, "/ \t\"") {
		return settings{},
			fmt.Errorf("bridge name %q: at most 15 bytes, without slash, space or quote; choose another with --bridge",
				c.Bridge)
	}
	if c.PodCIDR == "" {
		c.PodCIDR = DefaultPodCIDR
	}
	ranges, err := ParseRanges(c.PodCIDR)
	if err != nil {
		return settings{}, err
	}
	var cluster []netip.Prefix
	if c.ClusterCIDR != "" {
		if cluster, err = ParseRanges(c.ClusterCIDR); err != nil {
			return settings{}, fmt.Errorf("--cluster-cidr: %w", err)
		}
	}
	if c.ConfDir == "" {
		c.ConfDir = filepath.Join(dataDir, defaultConfDir)
	}
	return settings{
		id: instance.ID(dataDir), store: ipam.Store{Dir: filepath.Join(c.StateDir, "net")}, bridge: c.Bridge,
		ranges: ranges, confDir: c.ConfDir, binDir: c.BinDir, mtu: c.MTU,
		cluster: cluster, tunnelOverhead: c.TunnelOverhead, policySocket: c.PolicySocket,
	}, nil
}

// ParseRanges parses --pod-cidr: one range, or one of each IP family separated by a comma.
func ParseRanges(s string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, part := range strings.Split(s, ",") {
		r, err := netip.ParsePrefix(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("Pod range %q: %w; write it like 10.72.0.0/16 in --pod-cidr", part, err)
		}
		if free := r.Addr().BitLen() - r.Bits(); free < 3 {
			return nil, fmt.Errorf("Pod range %s is too small: at least 3 bits must be free, as in 10.72.0.0/29", r)
		}
		out = append(out, r.Masked())
	}
	if len(out) > 2 || len(out) == 2 && out[0].Addr().Is4() == out[1].Addr().Is4() {
		return nil, fmt.Errorf("Pod ranges %q: one range, or one IPv4 and one IPv6 range", s)
	}
	return out, nil
}
