package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/control/nodeipam"
	"github.com/gantry-project/gantry/internal/instance"
	"github.com/gantry-project/gantry/internal/network"
	"github.com/gantry-project/gantry/internal/proxy"
	"github.com/gantry-project/gantry/internal/proxy/config"
	"github.com/gantry-project/gantry/internal/proxy/nftables"
	"github.com/gantry-project/gantry/internal/proxy/nftables/nfnetlink"
	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// Where proxies serve health and metrics unless told otherwise, as upstream's.
const (
	proxyHealthz = "0.0.0.0:10256"
	proxyMetrics = "127.0.0.1:10249"
)

// proxyFlags are the proxy's in `gantry up`.
type proxyFlags struct {
	enabled          bool
	balancers        loadBalancerFlag
	file             string
	healthz, metrics string
}

func (o *proxyFlags) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.enabled, "proxy", true,
		"lead Services' traffic to their endpoints; false when another proxy does, or nobody")
	o.balancers.flags(f)
	f.StringVar(&o.file, "proxy-config", "", "KubeProxyConfiguration file")
	f.StringVar(&o.healthz, "proxy-healthz-bind-address", proxyHealthz,
		"address of the proxy's health; empty serves none")
	f.StringVar(&o.metrics, "proxy-metrics-bind-address", proxyMetrics,
		"address of the proxy's metrics; empty serves none")
}

// loadBalancerFlag tells whether Services of type LoadBalancer get the nodes' addresses.
type loadBalancerFlag struct{ enabled bool }

func (b *loadBalancerFlag) flags(f *pflag.FlagSet) {
	f.BoolVar(&b.enabled, "service-load-balancer", true,
		"grant Services of type LoadBalancer without loadBalancerClass the nodes' addresses; false when another "+
			"controller makes load balancers")
}

// without names the controllers that are not to run.
func (b loadBalancerFlag) without() []string {
	if b.enabled {
		return nil
	}
	return []string{"servicelb"}
}

// proxyTable is the name of an instance's tables.
func proxyTable(id string) string { return "gantry_proxy_" + id }

// proxyFamilies are those the kernel has.
func proxyFamilies() []rules.Family {
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		return []rules.Family{rules.IPv4}
	}
	return []rules.Family{rules.IPv4, rules.IPv6}
}

// proxyTables opens the tables of an instance for each family.
func proxyTables(id string, settings func(rules.Family) rules.Settings) ([]proxy.Table, error) {
	var out []proxy.Table
	line := new(nfnetlink.Conn)
	for _, f := range proxyFamilies() {
		s := settings(f)
		t, err := nftables.Open(line, f, proxyTable(id), rules.NewTableFrame(s))
		if err != nil {
			return nil, withFix(err,
				"install nftables 1.0.1 or newer (Debian: apt-get install nftables) and run as root")
		}
		out = append(out, proxy.Table{Settings: s, Kernel: t})
	}
	return out, nil
}

// cleanProxy takes the tables of an instance away.
func cleanProxy(ctx context.Context, id string) error {
	tables, err := proxyTables(id, func(f rules.Family) rules.Settings { return rules.Settings{Family: f} })
	for _, t := range tables {
		err = errors.Join(err, t.Kernel.Remove(ctx))
	}
	return err
}

// listen opens the ports for health and metrics into o.
func (f *proxyFlags) listen(o *proxy.Options) (err error) {
	if o.Healthz, err = listenAuxiliary("proxy", f.healthz, proxyHealthz, "proxy-healthz-bind-address"); err != nil {
		return err
	}
	if o.Metrics, err = listenAuxiliary("proxy", f.metrics, proxyMetrics, "proxy-metrics-bind-address"); err != nil &&
		o.Healthz != nil {
		_ = o.Healthz.Close()
	}
	return err
}

func proxyUser() user.Info {
	return &user.DefaultInfo{Name: user.KubeProxy, Groups: []string{user.AllAuthenticated}}
}

// proxy runs the proxy of `gantry up`. On Gantry's own Pod network, what comes from its bridge is
// Pods', and cluster IPs are asked for there alone.
func (u *upCommand) proxy(ctx context.Context, c runningCluster) error {
	if !u.node.proxy.enabled {
		<-ctx.Done()
		return nil
	}
	loaded, err := loadProxyConfig(u.node.proxy.file)
	if err != nil {
		return err
	}
	if others := processOnlyFields(loaded); len(others) > 0 {
		klog.FromContext(ctx).Info("Fields of the proxy's configuration that have no effect in gantry up, where the "+
			"node's and the server's settings count", "fields", strings.Join(others, ", "))
	}
	client, err := proxyClient(c.server.InProcess(proxyUser()), loaded, "proxy")
	if err != nil {
		return err
	}
	if loaded.ByNode() && c.engine.network && !u.instance.podNetwork.rangeFromNode() {
		loaded.NodeRanges, err = network.ParseRanges(u.instance.podNetwork.podCIDR)
	} else {
		err = nodeRanges(ctx, loaded, client, u.instance.nodeName)
	}
	if err != nil {
		return err
	}
	tables, err := proxyTables(instance.ID(u.instance.dataDir), func(f rules.Family) rules.Settings {
		s := loaded.Settings(f)
		if c.engine.network {
			s.ConfineInterfaces = []string{u.instance.podNetwork.bridge}
			if loaded.DetectLocalMode == "" && loaded.ClusterCIDR == "" {
				s.LocalDetector = rules.LocalTrafficDetector{Interface: u.instance.podNetwork.bridge}
			}
		}
		return s
	})
	if err != nil {
		return err
	}
	if err := setConntrack(ctx, "/", loaded); err != nil {
		return err
	}
	o := proxyOptions(loaded)
	o.Client, o.Node, o.Tables, o.Journal = client, u.instance.nodeName, tables, c.log.SinkFor("proxy", u.instance.nodeName)
	u.node.proxy.addresses(loaded)
	if err := u.node.proxy.listen(&o); err != nil {
		return err
	}
	p, err := proxy.New(o)
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// nodeRanges waits, where the configuration says NodeCIDR, until the Node has its Pod ranges.
func nodeRanges(ctx context.Context, loaded *config.Loaded, client kubernetes.Interface, node string) error {
	if !loaded.ByNode() {
		return nil
	}
	klog.FromContext(ctx).Info("The proxy waits for spec.podCIDRs of its Node", "node", node)
	ranges, err := rangesOf(ctx, client, node)
	loaded.NodeRanges = nodeipam.Parse(ranges)
	return err
}

func loadProxyConfig(file string) (*config.Loaded, error) {
	loaded, err := config.Load(file)
	if err != nil {
		return nil, withFix(err,
			"correct the field that the message names; kubeproxy.config.k8s.io/v1alpha1 documents all")
	}
	if len(loaded.IgnoredFields) > 0 {
		klog.Background().Info("Fields of the proxy's configuration that have no effect in Gantry",
			"fields", strings.Join(loaded.IgnoredFields, ", "))
	}
	return loaded, nil
}

// proxyCommand is the proxy alone.
type proxyCommand struct {
	role          roleOptions
	proxy         proxyFlags
	node, dataDir string
	clusterCIDR   string
	nodePorts     []string
	masqueradeAll bool
	clean         bool
}

// newProxy is the proxy alone; its flags are named as upstream's.
func newProxy(io IO) *cobra.Command {
	p := &proxyCommand{role: roleOptions{electable: true}}
	p.role.without = func(ctx context.Context) error {
		if p.clean {
			return p.cleanUp(ctx, newProgress(io.Out))
		}
		if loaded, err := loadProxyConfig(p.proxy.file); err != nil || loaded.ClientConnection.Kubeconfig == "" {
			return errors.Join(err,
				usageError(errors.New(
					`gantry proxy wants --kubeconfig, or --config with clientConnection.kubeconfig; see "gantry `+
						`proxy `+
						`--help"`)),
			)
		} else if p.role.kubeconfig = loaded.ClientConnection.Kubeconfig; true {
			cfg, _, err := restConfig(p.role.kubeconfig)
			if err != nil {
				return err
			}
			return p.run(ctx, cfg)
		}
		return nil
	}
	c := p.role.command(&cobra.Command{
		Use: "proxy", Short: "Run the Service proxy alone, against any Kubernetes API server",
		Long: "proxy leads what is sent to Services to their endpoints, by nftables. What it put there stays when it " +
			"stops, and is taken over at the next start;\n" +
			"--cleanup takes it away.",
		Example: "  sudo gantry proxy --kubeconfig /etc/kubernetes/proxy.conf --cluster-cidr 10.72.0.0/16\n  sudo " +
			"gantry proxy --cleanup",
	}, func(ctx context.Context, cfg *rest.Config) error {
		if p.clean {
			return p.cleanUp(ctx, newProgress(io.Out))
		}
		return p.run(ctx, cfg)
	})
	f := c.Flags()
	f.StringVar(&p.dataDir, "data-dir", defaultDataDir,
		"directory of the instance whose tables these are; it need not exist")
	f.StringVar(&p.proxy.file, "config", "", "KubeProxyConfiguration file; flags come after it")
	f.StringVar(&p.node, "hostname-override", "", "name of this node (default: the host's name)")
	f.StringVar(&p.clusterCIDR, "cluster-cidr", "",
		"addresses of the cluster's Pods; what comes to a cluster IP from elsewhere is masqueraded")
	f.StringSliceVar(&p.nodePorts, "nodeport-addresses", nil,
		"ranges of this node's addresses that have node ports (default: all of its addresses)")
	f.BoolVar(&p.masqueradeAll, "masquerade-all", false, "masquerade everything that comes to a cluster IP")
	f.StringVar(&p.proxy.healthz, "healthz-bind-address", proxyHealthz, "address of the health server; empty serves none")
	f.StringVar(&p.proxy.metrics, "metrics-bind-address", proxyMetrics, "address of the metrics server; empty serves none")
	f.BoolVar(&p.clean, "cleanup", false, "take this proxy's tables away and exit")
	f.BoolVar(&p.clean, "clean", false, "the same as --cleanup")
	return c
}

func (p *proxyCommand) cleanUp(ctx context.Context, out *progress) error {
	if err := requireRoot("gantry proxy --cleanup"); err != nil {
		return err
	}
	id := instance.ID(p.dataDir)
	if err := cleanProxy(ctx, id); err != nil {
		return err
	}
	out.step("Service rules (nft tables %s) removed", proxyTable(id))
	return nil
}

func (p *proxyCommand) run(ctx context.Context, cfg *rest.Config) error {
	if err := requireRoot("gantry proxy"); err != nil {
		return err
	}
	loaded, err := p.load()
	if err != nil {
		return err
	}
	if err := setOOMScore(loaded.OOMScoreAdj); err != nil {
		return err
	}
	client, err := proxyClient(cfg, loaded, "gantry-proxy")
	if err != nil {
		return err
	}
	if err := nodeRanges(ctx, loaded, client, p.node); err != nil {
		return err
	}
	tables, err := proxyTables(instance.ID(p.dataDir), loaded.Settings)
	if err != nil {
		return err
	}
	sink, stop, err := newRemoteJournal(ctx, cfg, journalSource{component: "proxy", node: p.node})
	if err != nil {
		return err
	}
	defer stop()
	if err := setConntrack(ctx, "/", loaded); err != nil {
		return err
	}
	o := proxyOptions(loaded)
	o.Client, o.Node, o.Tables, o.Journal = client, p.node, tables, sink
	if err := p.proxy.listen(&o); err != nil {
		return err
	}
	one, err := proxy.New(o)
	if err != nil {
		return err
	}
	runGCPacer(ctx)
	return one.Run(ctx)
}

// load is the file with the flags laid over it.
func (p *proxyCommand) load() (*config.Loaded, error) {
	loaded, err := loadProxyConfig(p.proxy.file)
	if err != nil {
		return nil, err
	}
	if p.clusterCIDR != "" {
		loaded.ClusterCIDR = p.clusterCIDR
	}
	if len(p.nodePorts) > 0 {
		loaded.NodePortAddresses = p.nodePorts
	}
	loaded.NFTables.MasqueradeAll = loaded.NFTables.MasqueradeAll || p.masqueradeAll
	p.proxy.addresses(loaded)
	if p.node == "" {
		p.node = loaded.HostnameOverride
	}
	if p.node == "" {
		if p.node, err = os.Hostname(); err != nil {
			return nil, withFix(fmt.Errorf("this host has no name: %w", err), "give one with --hostname-override")
		}
	}
	p.node = strings.ToLower(p.node)
	if err := loaded.Check(); err != nil {
		return nil, usageError(err)
	}
	return loaded, nil
}
