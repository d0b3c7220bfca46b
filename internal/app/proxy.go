package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/app/networkagent"
	"github.com/gantry-project/gantry/internal/cli"
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
	ProxyHealthz = "0.0.0.0:10256"
	ProxyMetrics = "127.0.0.1:10249"
)

// proxyFlags are the proxy's in `gantry up`.
type proxyFlags struct {
	enabled          bool
	balancers        LoadBalancerFlag
	File             string
	Healthz, Metrics string
}

func (o *proxyFlags) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.enabled, "proxy", true,
		"lead Services' traffic to their endpoints; false when another proxy does, or nobody")
	o.balancers.Flags(f)
	f.StringVar(&o.File, "proxy-config", "", "KubeProxyConfiguration file")
	f.StringVar(&o.Healthz, "proxy-healthz-bind-address", ProxyHealthz,
		"address of the proxy's health; empty serves none")
	f.StringVar(&o.Metrics, "proxy-metrics-bind-address", ProxyMetrics,
		"address of the proxy's metrics; empty serves none")
}

// LoadBalancerFlag tells whether Services of type LoadBalancer get the nodes' addresses.
type LoadBalancerFlag struct{ enabled bool }

func (b *LoadBalancerFlag) Flags(f *pflag.FlagSet) {
	f.BoolVar(&b.enabled, "service-load-balancer", true,
		"grant Services of type LoadBalancer without loadBalancerClass the nodes' addresses; false when another "+
			"controller makes load balancers")
}

// Without names the controllers that are not to run.
func (b LoadBalancerFlag) Without() []string {
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
			return nil, cli.WithFix(err,
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
	if o.Healthz, err = listenAuxiliary("proxy", f.Healthz, ProxyHealthz, "proxy-healthz-bind-address"); err != nil {
		return err
	}
	if o.Metrics, err = listenAuxiliary("proxy", f.Metrics, ProxyMetrics, "proxy-metrics-bind-address"); err != nil &&
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
func (u *Up) proxy(ctx context.Context, c runningCluster) error {
	if !u.Node.proxy.enabled {
		<-ctx.Done()
		return nil
	}
	loaded, err := LoadProxyConfig(u.Node.proxy.File)
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
	if loaded.ByNode() && c.containerRuntime.Network && !u.Instance.PodNetwork.RangeFromNode() {
		loaded.NodeRanges, err = network.ParseRanges(u.Instance.PodNetwork.PodCIDR)
	} else {
		err = nodeRanges(ctx, loaded, client, u.Instance.NodeName)
	}
	if err != nil {
		return err
	}
	tables, err := proxyTables(instance.ID(u.Instance.DataDir), func(f rules.Family) rules.Settings {
		s := loaded.Settings(f)
		if c.containerRuntime.Network {
			s.ConfineInterfaces = []string{u.Instance.PodNetwork.Bridge}
			if loaded.DetectLocalMode == "" && loaded.ClusterCIDR == "" {
				s.LocalDetector = rules.LocalTrafficDetector{Interface: u.Instance.PodNetwork.Bridge}
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
	o.Client, o.Node, o.Tables, o.Journal = client, u.Instance.NodeName, tables,
		c.log.SinkFor("proxy", u.Instance.NodeName)
	u.Node.proxy.addresses(loaded)
	if err := u.Node.proxy.listen(&o); err != nil {
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
	ranges, err := networkagent.PodCIDRs(ctx, client, node)
	loaded.NodeRanges = nodeipam.Parse(ranges)
	return err
}

// LoadProxyConfig reads a KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1); without a file
// the defaults. The error names the field. Fields that have no effect are logged.
func LoadProxyConfig(file string) (*config.Loaded, error) {
	loaded, err := config.Load(file)
	if err != nil {
		return nil, cli.WithFix(err,
			"correct the field that the message names; kubeproxy.config.k8s.io/v1alpha1 documents all")
	}
	if len(loaded.IgnoredFields) > 0 {
		klog.Background().Info("Fields of the proxy's configuration that have no effect in Gantry",
			"fields", strings.Join(loaded.IgnoredFields, ", "))
	}
	return loaded, nil
}

// Proxy is the proxy alone.
type Proxy struct {
	Role          cli.Role
	Proxy         proxyFlags
	Node, DataDir string
	ClusterCIDR   string
	NodePorts     []string
	MasqueradeAll bool
	Clean         bool
}

// CleanUp removes the Service rules of the instance of DataDir, and tells out. It needs root and no
// API server; rules that are gone already are no error.
func (p *Proxy) CleanUp(ctx context.Context, out *cli.Progress) error {
	if err := cli.RequireRoot("gantry proxy --cleanup"); err != nil {
		return err
	}
	id := instance.ID(p.DataDir)
	if err := cleanProxy(ctx, id); err != nil {
		return err
	}
	out.Step("Service rules (nft tables %s) removed", proxyTable(id))
	return nil
}

// Run keeps the node's Service rules as the API server of cfg wants them, until ctx ends. It needs
// root, and waits for the Node's Pod ranges where the configuration takes them from there.
func (p *Proxy) Run(ctx context.Context, cfg *rest.Config) error {
	if err := cli.RequireRoot("gantry proxy"); err != nil {
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
	if err := nodeRanges(ctx, loaded, client, p.Node); err != nil {
		return err
	}
	tables, err := proxyTables(instance.ID(p.DataDir), loaded.Settings)
	if err != nil {
		return err
	}
	sink, stop, err := NewRemoteJournal(ctx, cfg, JournalSource{Component: "proxy", node: p.Node})
	if err != nil {
		return err
	}
	defer stop()
	if err := setConntrack(ctx, "/", loaded); err != nil {
		return err
	}
	o := proxyOptions(loaded)
	o.Client, o.Node, o.Tables, o.Journal = client, p.Node, tables, sink
	if err := p.Proxy.listen(&o); err != nil {
		return err
	}
	one, err := proxy.New(o)
	if err != nil {
		return err
	}
	return one.Run(ctx)
}

// load is the file with the flags laid over it.
func (p *Proxy) load() (*config.Loaded, error) {
	loaded, err := LoadProxyConfig(p.Proxy.File)
	if err != nil {
		return nil, err
	}
	if p.ClusterCIDR != "" {
		loaded.ClusterCIDR = p.ClusterCIDR
	}
	if len(p.NodePorts) > 0 {
		loaded.NodePortAddresses = p.NodePorts
	}
	loaded.NFTables.MasqueradeAll = loaded.NFTables.MasqueradeAll || p.MasqueradeAll
	p.Proxy.addresses(loaded)
	if p.Node == "" {
		p.Node = loaded.HostnameOverride
	}
	if p.Node == "" {
		if p.Node, err = os.Hostname(); err != nil {
			return nil, cli.WithFix(fmt.Errorf("this host has no name: %w", err), "give one with --hostname-override")
		}
	}
	p.Node = strings.ToLower(p.Node)
	if err := loaded.Check(); err != nil {
		return nil, cli.UsageError(err)
	}
	return loaded, nil
}
