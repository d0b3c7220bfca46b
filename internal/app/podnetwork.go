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

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/control/nodeipam"
	"github.com/gantry-project/gantry/internal/instance"
	"github.com/gantry-project/gantry/internal/network"
	"github.com/gantry-project/gantry/internal/network/routes"
	"github.com/gantry-project/gantry/internal/networkpolicy"
)

// podNetworkOptions is the Pod network as its flags say.
type podNetworkOptions struct {
	network     string // gantry or none
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

func (n *podNetworkOptions) flags(f *pflag.FlagSet) {
	n.set = f
	f.StringVar(&n.network, "network", networkGantry,
		"who makes the Pod network: gantry, or none, where the node waits for another CNI plugin to write its "+
			"configuration into --cni-conf-dir (then /etc/cni/net.d by default)")
	f.StringVar(&n.bridge, "bridge", "gantry0", "bridge of Gantry's own Pod network")
	f.StringVar(&n.podCIDR, "pod-cidr", "10.72.0.0/16",
		"addresses that Pods of this node get; with --cluster-cidr those of spec.podCIDRs of its Node unless this is "+
			"given")
	f.StringVar(&n.cniConfDir, "cni-conf-dir", "",
		"directory with the Pod network's configuration; when none is there the node waits for one, with "+
			"--network=gantry Gantry writes its own (default: DATA-DIR/cni/net.d, written by Gantry)")
	f.StringVar(&n.routes, "node-routes", string(routes.Auto),
		"how Pods of other nodes are reached: auto (routes on one segment, VXLAN otherwise), direct or vxlan")
	f.BoolVar(&n.policies, "network-policy", true, "enforce NetworkPolicies on Gantry's own Pod network")
	n.clusterFlags(f)
}

// clusterFlags are those of the range that nodes get parts of, named as upstream's.
func (n *podNetworkOptions) clusterFlags(f *pflag.FlagSet) {
	f.StringVar(&n.clusterCIDR, "cluster-cidr", "",
		"addresses of all nodes' Pods: one range, or an IPv4 and an IPv6 one with a comma between (default: this node "+
			"is the only one)")
	f.BoolVar(&n.allocate, "allocate-node-cidrs", true, "give every Node its part of --cluster-cidr")
	f.IntVar(&n.mask, "node-cidr-mask-size", 0,
		"length of a node's part of --cluster-cidr (default: 24 of IPv4, 64 of IPv6)")
	f.IntVar(&n.maskIPv4, "node-cidr-mask-size-ipv4", 0, "length of a node's IPv4 part, with two families (default 24)")
	f.IntVar(&n.maskIPv6, "node-cidr-mask-size-ipv6", 0, "length of a node's IPv6 part, with two families (default 64)")
}

// ranges is what the controllers need; empty when they are to give nothing.
func (n *podNetworkOptions) ranges(services string) controllerruntime.NodeRanges {
	if !n.allocate || n.clusterCIDR == "" {
		return controllerruntime.NodeRanges{}
	}
	s := n.sizes()
	r := controllerruntime.NodeRanges{Cluster: n.clusterCIDR, MaskIPv4: s.IPv4, MaskIPv6: s.IPv6}
	if services != "" {
		r.Services = strings.Split(services, ",")
	}
	return r
}

func (n *podNetworkOptions) sizes() nodeipam.MaskSizes {
	s := nodeipam.MaskSizes{IPv4: n.maskIPv4, IPv6: n.maskIPv6}
	if n.mask != 0 && strings.Contains(n.clusterCIDR, ":") {
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

// networkByOthers tells whether another CNI plugin is to make the Pod network: that was said, or
// its directory was named.
func (n *podNetworkOptions) networkByOthers(created string) bool {
	given := n.set != nil && n.set.Changed("cni-conf-dir") && !n.set.Changed("network")
	return n.network == networkNone || given && created != n.cniConfDir
}

// check refuses early what would fail late, and fills in what the choice of network brings.
func (n *podNetworkOptions) check() error {
	switch n.network {
	case "", networkGantry:
	case networkNone:
		if n.set != nil && n.set.Changed("pod-cidr") {
			return usageError(
				errors.New("--pod-cidr is for Gantry's own network; with --network=none the other CNI plugin has its " +
					"own range, or takes spec.podCIDR of the Node that --cluster-cidr gives"))

		}
		if n.cniConfDir == "" {
			n.cniConfDir = usualCNIConfDir
		}
	default:
		return usageError(fmt.Errorf("--network %q: it is %s or %s", n.network, networkGantry, networkNone))
	}
	if n.routes != "" {
		if _, err := routes.ParseMode(n.routes); err != nil {
			return usageError(err)
		}
	}
	if n.clusterCIDR == "" {
		return nil
	}
	if n.mask != 0 && strings.Contains(n.clusterCIDR, ",") {
		return usageError(
			errors.New("--node-cidr-mask-size is for one family; with two give --node-cidr-mask-size-ipv4 and " +
				"--node-cidr-mask-size-ipv6"))

	}
	if _, err := nodeipam.NewAllocator(n.clusterCIDR, n.sizes()); err != nil {
		return usageError(err)
	}
	return nil
}

// rangeFromNode tells whether this node's range comes from its Node.
func (n *podNetworkOptions) rangeFromNode() bool {
	return n.clusterCIDR != "" && (n.set == nil || !n.set.Changed("pod-cidr"))
}

func (p *instanceOptions) networkConfig() network.Config {
	c := network.Config{DataDir: p.dataDir, Bridge: p.podNetwork.bridge, PodCIDR: p.podNetwork.podCIDR, ConfDir: p.podNetwork.cniConfDir,
		BinDir: filepath.Join(p.binDir, "cni"), ClusterCIDR: p.podNetwork.clusterCIDR}
	if p.podNetwork.clusterCIDR != "" && p.podNetwork.routes != string(routes.Direct) {
		c.TunnelOverhead = routes.VXLANOverhead
		if strings.Contains(p.nodeIP, ":") {
			c.TunnelOverhead += 20
		}
	}
	if p.podNetwork.policies {
		c.PolicySocket = p.policyGatePath()
	}
	return c
}

func (p *instanceOptions) policyGatePath() string {
	return filepath.Join(instance.StateDir(p.dataDir), "policy.sock")
}

// policyTable is the name of an instance's table of network policies.
func policyTable(id string) string { return "gantry_policy_" + id }

// makeNetwork makes the Pod network, or opens what it needs and leaves the rest until the Node has
// a range.
func makeNetwork(ctx context.Context, p *instanceOptions, e *engine, logf func(string, ...any)) error {
	foreign, err := network.Foreign(p.networkConfig())
	if err != nil {
		return err
	}
	created, err := network.InstalledConfDir(p.networkConfig())
	if err != nil {
		return err
	}
	if foreign != "" || p.podNetwork.networkByOthers(created) {
		e.networkReady = func() error { return checkForeignNetwork(p) }
		if foreign != "" {
			logf("network of %s", foreign)
		} else {
			logf("no Pod network: %v", e.networkReady())
		}
		return removeOwnNetwork(ctx, p, created, logf)
	}
	e.network = true
	if p.podNetwork.policies {
		if e.policyListener, err = listenPolicyGate(p.policyGatePath()); err != nil {
			return err
		}
	}
	if p.podNetwork.rangeFromNode() {
		return nil
	}
	return ensureNetwork(ctx, p, p.networkConfig(), logf)
}

// checkForeignNetwork says what a node waits for whose network another CNI plugin makes; nil when
// that is there.
func checkForeignNetwork(p *instanceOptions) error {
	c := p.networkConfig()
	foreign, err := network.Foreign(c)
	if err == nil && foreign == "" {
		err = fmt.Errorf("the Pod network is another CNI plugin's, whose configuration is waited for in %s: apply its "+
			"manifest, or let Gantry make one with --network=gantry", c.ConfDir)
	}
	return err
}

// removeOwnNetwork takes Gantry's own network away, which lies in made, if there is one: two
// bridges would have one address, and rules for one range.
func removeOwnNetwork(ctx context.Context, p *instanceOptions, created string, logf func(string, ...any)) error {
	if created == "" {
		return nil
	}
	c := p.networkConfig()
	c.ConfDir = created
	if err := cleanNetworkOf(ctx, p, c); err != nil {
		return err
	}
	if err := network.Uninstall(ctx, c); err != nil {
		return err
	}
	logf("Gantry's own network is taken away; Pods that were on it begin anew on the other")
	return nil
}

func ensureNetwork(ctx context.Context, p *instanceOptions, c network.Config, logf func(string, ...any)) error {
	state, err := network.Ensure(ctx, c)
	if err != nil {
		return err
	}
	if state.Warning != "" {
		logf("warning: %s", state.Warning)
	}
	logf("network %s on bridge %s", c.PodCIDR, c.Bridge)
	return nil
}

// listenPolicyGate listens where the CNI plugin tells of Pods. A socket that an instance left
// behind which was killed is replaced.
func listenPolicyGate(path string) (net.Listener, error) {
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

// cleanNetwork takes away what leads to other nodes and what policies left.
func cleanNetwork(ctx context.Context, p *instanceOptions) error {
	c := p.networkConfig()
	created, err := network.InstalledConfDir(c)
	if created != "" {
		c.ConfDir = created
	}
	return errors.Join(err, cleanNetworkOf(ctx, p, c))
}

func cleanNetworkOf(ctx context.Context, p *instanceOptions, c network.Config) error {
	id := instance.ID(p.dataDir)
	table, err := networkpolicy.Open(policyTable(id))
	if err == nil {
		err = table.Remove(ctx)
	}
	cluster, confErr := network.ClusterOf(c)
	if len(cluster) > 0 {
		err = errors.Join(err, (&routes.Router{ID: id, Cluster: cluster}).Clean())
	}
	return errors.Join(err, confErr)
}
