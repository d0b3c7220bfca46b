package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gantry-project/gantry/internal/control/loop"
	"github.com/gantry-project/gantry/internal/control/nodecidr"
	"github.com/gantry-project/gantry/internal/linux/instance"
	"github.com/gantry-project/gantry/internal/network"
	"github.com/gantry-project/gantry/internal/network/peers"
	"github.com/gantry-project/gantry/internal/policy"
)

// podNet is the Pod network as its flags say.
type podNet struct {
	bridge      string
	podCIDR     string
	cniConfDir  string
	clusterCIDR string // of all nodes; empty: this node is alone
	allocate    bool   // the controllers give nodes parts of it
	mask        int    // length of a part, of either family; 0: by family
	maskIPv4    int
	maskIPv6    int
	routes      string // how other nodes are reached
	policies    bool   // NetworkPolicies are enforced
	set         *pflag.FlagSet
}

func (n *podNet) flags(f *pflag.FlagSet) {
	n.set = f
	f.StringVar(&n.bridge, "bridge", "gantry0", "bridge of Gantry's own Pod network")
	f.StringVar(&n.podCIDR, "pod-cidr", "10.72.0.0/16", "addresses that Pods of this node get; with --cluster-cidr those of spec.podCIDRs of its Node unless this is given")
	f.StringVar(&n.cniConfDir, "cni-conf-dir", "", "directory with the Pod network's configuration; Gantry writes its own when none is there (default: DATA-DIR/cni/net.d)")
	f.StringVar(&n.routes, "node-routes", string(peers.Auto), "how Pods of other nodes are reached: auto (routes on one segment, VXLAN otherwise), direct or vxlan")
	f.BoolVar(&n.policies, "network-policy", true, "enforce NetworkPolicies on Gantry's own Pod network")
	n.clusterFlags(f)
}

// clusterFlags are those of the range that nodes get parts of, named as upstream's.
func (n *podNet) clusterFlags(f *pflag.FlagSet) {
	f.StringVar(&n.clusterCIDR, "cluster-cidr", "", "addresses of all nodes' Pods: one range, or an IPv4 and an IPv6 one with a comma between (default: this node is the only one)")
	f.BoolVar(&n.allocate, "allocate-node-cidrs", true, "give every Node its part of --cluster-cidr")
	f.IntVar(&n.mask, "node-cidr-mask-size", 0, "length of a node's part of --cluster-cidr (default: 24 of IPv4, 64 of IPv6)")
	f.IntVar(&n.maskIPv4, "node-cidr-mask-size-ipv4", 0, "length of a node's IPv4 part, with two families (default 24)")
	f.IntVar(&n.maskIPv6, "node-cidr-mask-size-ipv6", 0, "length of a node's IPv6 part, with two families (default 64)")
}

// ranges is what the controllers need; empty when they are to give nothing.
func (n *podNet) ranges(services string) loop.NodeRanges {
	if !n.allocate || n.clusterCIDR == "" {
		return loop.NodeRanges{}
	}
	s := n.sizes()
	r := loop.NodeRanges{Cluster: n.clusterCIDR, MaskIPv4: s.IPv4, MaskIPv6: s.IPv6}
	if services != "" {
		r.Services = strings.Split(services, ",")
	}
	return r
}

func (n *podNet) sizes() nodecidr.Sizes {
	s := nodecidr.Sizes{IPv4: n.maskIPv4, IPv6: n.maskIPv6}
	if n.mask != 0 && strings.Contains(n.clusterCIDR, ":") {
		s.IPv6 = n.mask
	} else if n.mask != 0 {
		s.IPv4 = n.mask
	}
	return s
}

// check refuses early what would fail late.
func (n *podNet) check() error {
	if n.routes != "" {
		if _, err := peers.ParseMode(n.routes); err != nil {
			return usageError{err}
		}
	}
	if n.clusterCIDR == "" {
		return nil
	}
	if n.mask != 0 && strings.Contains(n.clusterCIDR, ",") {
		return usageError{errors.New("--node-cidr-mask-size is for one family; with two give --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6")}
	}
	if _, err := nodecidr.NewBook(n.clusterCIDR, n.sizes()); err != nil {
		return usageError{err}
	}
	return nil
}

// given tells whether this node's range comes from its Node.
func (n *podNet) given() bool {
	return n.clusterCIDR != "" && (n.set == nil || !n.set.Changed("pod-cidr"))
}

func (p *place) networkConfig() network.Config {
	c := network.Config{DataDir: p.dataDir, Bridge: p.bridge, PodCIDR: p.podCIDR, ConfDir: p.cniConfDir, BinDir: filepath.Join(p.binDir, "cni"), ClusterCIDR: p.clusterCIDR}
	if p.clusterCIDR != "" && p.routes != string(peers.Direct) {
		c.Room = peers.Room
		if strings.Contains(p.nodeIP, ":") {
			c.Room += 20
		}
	}
	if p.policies {
		c.Gate = p.gatePath()
	}
	return c
}

func (p *place) gatePath() string { return filepath.Join(instance.StateDir(p.dataDir), "policy.sock") }

// policyTable is the name of an instance's table of network policies.
func policyTable(id string) string { return "gantry_policy_" + id }

// makeNetwork makes the Pod network, or opens what it needs and leaves the rest until the Node has a range.
func (p *place) makeNetwork(ctx context.Context, e *engine, say func(string, ...any)) error {
	foreign, err := network.Foreign(p.networkConfig())
	if err != nil {
		return err
	}
	if foreign != "" {
		say("network of %s", foreign)
		return nil
	}
	e.network = true
	if p.policies {
		if e.gate, err = openGate(p.gatePath()); err != nil {
			return err
		}
	}
	if p.given() {
		return nil
	}
	return p.ensureNetwork(ctx, p.networkConfig(), say)
}

func (p *place) ensureNetwork(ctx context.Context, c network.Config, say func(string, ...any)) error {
	state, err := network.Ensure(ctx, c)
	if err != nil {
		return err
	}
	if state.Warning != "" {
		say("warning: %s", state.Warning)
	}
	say("network %s on bridge %s", c.PodCIDR, c.Bridge)
	return nil
}

// openGate listens where the CNI plugin tells of Pods. A socket that an instance left behind which was killed is replaced.
func openGate(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("gate for network policies: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("gate for network policies: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("gate for network policies: %w", err)
	}
	return l, os.Chmod(path, 0o600)
}

// cleanNet takes away what leads to other nodes and what policies left.
func (p *place) cleanNet(ctx context.Context) error {
	id := instance.ID(p.dataDir)
	table, err := policy.Open(policyTable(id))
	if err == nil {
		err = table.Remove(ctx)
	}
	cluster, confErr := network.ClusterOf(p.networkConfig())
	if len(cluster) > 0 {
		err = errors.Join(err, (&peers.Links{ID: id, Cluster: cluster}).Clean())
	}
	return errors.Join(err, confErr)
}
