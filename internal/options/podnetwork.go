package options

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/control/nodeipam"
	"github.com/gantry-project/gantry/internal/instance"
	"github.com/gantry-project/gantry/internal/network"
	"github.com/gantry-project/gantry/internal/network/routes"
)

// PodNetwork is the Pod network as its flags say.
type PodNetwork struct {
	network     string // gantry or none
	Bridge      string
	PodCIDR     string
	cniConfDir  string
	ClusterCIDR string // of all nodes; empty: this node is alone
	allocate    bool   // the controllers give nodes parts of it
	mask        int    // length of a part, of either family; 0: by family
	maskIPv4    int
	maskIPv6    int
	Routes      string // how other nodes are reached
	Policies    bool   // NetworkPolicies are enforced
	set         *pflag.FlagSet
}

func (n *PodNetwork) flags(f *pflag.FlagSet) {
	n.set = f
	f.StringVar(&n.network, "network", networkGantry,
		"who makes the Pod network: gantry, or none, where the node waits for another CNI plugin to write its "+
			"configuration into --cni-conf-dir (then /etc/cni/net.d by default)")
	f.StringVar(&n.Bridge, "bridge", "gantry0", "bridge of Gantry's own Pod network")
	f.StringVar(&n.PodCIDR, "pod-cidr", "10.72.0.0/16",
		"addresses that Pods of this node get; with --cluster-cidr those of spec.podCIDRs of its Node unless this is "+
			"given")
	f.StringVar(&n.cniConfDir, "cni-conf-dir", "",
		"directory with the Pod network's configuration; when none is there the node waits for one, with "+
			"--network=gantry Gantry writes its own (default: DATA-DIR/cni/net.d, written by Gantry)")
	f.StringVar(&n.Routes, "node-routes", string(routes.Auto),
		"how Pods of other nodes are reached: auto (routes on one segment, VXLAN otherwise), direct or vxlan")
	f.BoolVar(&n.Policies, "network-policy", true, "enforce NetworkPolicies on Gantry's own Pod network")
	n.ClusterFlags(f)
}

// ClusterFlags are those of the range that nodes get parts of, named as upstream's.
func (n *PodNetwork) ClusterFlags(f *pflag.FlagSet) {
	f.StringVar(&n.ClusterCIDR, "cluster-cidr", "",
		"addresses of all nodes' Pods: one range, or an IPv4 and an IPv6 one with a comma between (default: this "+
			"node is the only one)")
	f.BoolVar(&n.allocate, "allocate-node-cidrs", true, "give every Node its part of --cluster-cidr")
	f.IntVar(&n.mask, "node-cidr-mask-size", 0,
		"length of a node's part of --cluster-cidr (default: 24 of IPv4, 64 of IPv6)")
	f.IntVar(&n.maskIPv4, "node-cidr-mask-size-ipv4", 0, "length of a node's IPv4 part, with two families (default 24)")
	f.IntVar(&n.maskIPv6, "node-cidr-mask-size-ipv6", 0, "length of a node's IPv6 part, with two families (default 64)")
}

// Ranges is what the controllers need; empty when they are to give nothing.
func (n *PodNetwork) Ranges(services string) controllerruntime.NodeRanges {
	if !n.allocate || n.ClusterCIDR == "" {
		return controllerruntime.NodeRanges{}
	}
	s := n.sizes()
	r := controllerruntime.NodeRanges{Cluster: n.ClusterCIDR, MaskIPv4: s.IPv4, MaskIPv6: s.IPv6}
	if services != "" {
		r.Services = strings.Split(services, ",")
	}
	return r
}

func (n *PodNetwork) sizes() nodeipam.MaskSizes {
	s := nodeipam.MaskSizes{IPv4: n.maskIPv4, IPv6: n.maskIPv6}
	if n.mask != 0 && strings.Contains(n.ClusterCIDR, ":") {
		s.IPv6 = n.mask
	} else if n.mask != 0 {
		s.IPv4 = n.mask
	}
	return s
}

// Who makes the Pod network.
const (
	networkGantry = "gantry"
	networkNone   = "none"
)

// usualCNIConfDir is where manifests of CNI plugins write their configuration, unless they are
// changed.
const usualCNIConfDir = "/etc/cni/net.d"

// ExternalCNI tells whether another CNI plugin is to make the Pod network: that was said, or
// its directory was named.
func (n *PodNetwork) ExternalCNI(created string) bool {
	given := n.set != nil && n.set.Changed("cni-conf-dir") && !n.set.Changed("network")
	return n.network == networkNone || given && created != n.cniConfDir
}

// Check refuses early what would fail late, and fills in what the choice of network brings.
func (n *PodNetwork) Check() error {
	switch n.network {
	case "", networkGantry:
	case networkNone:
		if n.set != nil && n.set.Changed("pod-cidr") {
			return cli.UsageError(
				errors.New("--pod-cidr is for Gantry's own network; with --network=none the other CNI plugin has its " +
					"own range, or takes spec.podCIDR of the Node that --cluster-cidr gives"))

		}
		if n.cniConfDir == "" {
			n.cniConfDir = usualCNIConfDir
		}
	default:
		return cli.UsageError(fmt.Errorf("--network %q: it is %s or %s", n.network, networkGantry, networkNone))
	}
	if n.Routes != "" {
		if _, err := routes.ParseMode(n.Routes); err != nil {
			return cli.UsageError(err)
		}
	}
	if n.ClusterCIDR == "" {
		return nil
	}
	if n.mask != 0 && strings.Contains(n.ClusterCIDR, ",") {
		return cli.UsageError(
			errors.New("--node-cidr-mask-size is for one family; with two give --node-cidr-mask-size-ipv4 and " +
				"--node-cidr-mask-size-ipv6"))

	}
	if _, err := nodeipam.NewAllocator(n.ClusterCIDR, n.sizes()); err != nil {
		return cli.UsageError(err)
	}
	return nil
}

// RangeFromNode tells whether this node's range comes from its Node.
func (n *PodNetwork) RangeFromNode() bool {
	return n.ClusterCIDR != "" && (n.set == nil || !n.set.Changed("pod-cidr"))
}

func (p *Instance) NetworkConfig() network.Config {
	c := network.Config{DataDir: p.DataDir, Bridge: p.PodNetwork.Bridge, PodCIDR: p.PodNetwork.PodCIDR,
		ConfDir: p.PodNetwork.cniConfDir,
		BinDir:  filepath.Join(p.dirs.bin, "cni"), ClusterCIDR: p.PodNetwork.ClusterCIDR}
	if p.PodNetwork.ClusterCIDR != "" && p.PodNetwork.Routes != string(routes.Direct) {
		c.TunnelOverhead = routes.VXLANOverhead
		if strings.Contains(p.NodeIP, ":") {
			c.TunnelOverhead += 20
		}
	}
	if p.PodNetwork.Policies {
		c.PolicySocket = p.PolicyGatePath()
	}
	return c
}

func (p *Instance) PolicyGatePath() string {
	return filepath.Join(instance.StateDir(p.DataDir), "policy.sock")
}
