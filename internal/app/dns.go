package app

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/dns"
	"github.com/gantry-project/gantry/internal/dns/plan"
	"github.com/gantry-project/gantry/internal/network"
	"github.com/gantry-project/gantry/internal/network/ipam"
	"github.com/gantry-project/gantry/internal/options"
)

const (
	dnsMetrics = "127.0.0.1:9153"
	dnsPort    = 53
)

// dnsFlags are the DNS server's.
type dnsFlags struct {
	enabled   bool
	Bind      string
	upstreams []string
	stubs     []string
	metrics   string
}

// Flags registers them; in `gantry up` every name begins with dns-.
func (o *dnsFlags) Flags(f *pflag.FlagSet, prefix string) {
	f.StringSliceVar(&o.upstreams, prefix+"upstream", nil,
		`servers asked about names outside the cluster: address[:port],…; "none": nobody is asked (default: those of `+
			`the node's resolver file)`)
	f.StringArrayVar(&o.stubs, prefix+"stub-domain", nil,
		"domain with servers of its own: DOMAIN=address[:port],…; may be repeated")
	f.StringVar(&o.metrics, prefix+"metrics-bind-address", dnsMetrics,
		"address of the DNS server's health and metrics; empty serves none")
}

// upFlags are those of `gantry up`.
func (o *dnsFlags) upFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.enabled, "dns", true,
		"answer the cluster's names at the tenth address of the Services' range; false when another DNS does, or "+
			"nobody")
	o.standaloneFlags(f)
}

// NodeFlags are those of `gantry kubelet`.
func (o *dnsFlags) NodeFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.enabled, "dns", true,
		"with --network-kubeconfig and --cluster-cidr, answer the cluster's names to this node's Pods, as clusterDNS "+
			"of the KubeletConfiguration; false leaves that to other nodes")
	o.standaloneFlags(f)
}

// standaloneFlags are those of a server that runs beside a kubelet.
func (o *dnsFlags) standaloneFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Bind, "dns-bind-address", "",
		"address[:port] where other nodes ask this one's DNS server (default: the gateway of the Pod network, port 53)")
	o.Flags(f, "dns-")
}

// settings reads upstreams and stub domains; alone tells that nobody is to be asked.
func (o *dnsFlags) settings(prefix string) (base plan.Settings, alone bool, err error) {
	list := o.upstreams
	if len(list) == 1 && list[0] == "none" {
		list, alone = nil, true
	}
	if base.Upstreams, err = plan.Servers(list); err != nil {
		return base, false, cli.UsageError(fmt.Errorf("--%supstream: %w", prefix, err))
	}
	domains := map[string][]string{}
	for _, text := range o.stubs {
		domain, servers, ok := strings.Cut(text, "=")
		if !ok {
			return base, false,
				cli.UsageError(fmt.Errorf("--%sstub-domain %q: must be DOMAIN=address[:port],…", prefix, text))
		}
		domains[domain] = append(domains[domain], strings.Split(servers, ",")...)
	}
	if base.Stubs, err = plan.Stubs(domains); err != nil {
		return base, false, cli.UsageError(fmt.Errorf("--%sstub-domain: %w", prefix, err))
	}
	return base, alone, nil
}

// clusterDNS is the address Pods ask: the tenth of the Services' range; none when DNS is off or the
// range too small.
func (o *dnsFlags) clusterDNS(p *options.Instance) (netip.Addr, bool) {
	ranges, err := p.ServiceRanges()
	if !o.enabled || err != nil {
		return netip.Addr{}, false
	}
	return plan.ClusterAddress(ranges[0])
}

// bridgeResolver is where the node's DNS server answers on its own Pod network of these ranges, in
// the family of a; none where it has no such range.
func bridgeResolver(own []netip.Prefix, a netip.Addr) netip.AddrPort {
	for _, r := range own {
		if r.Addr().Is4() == a.Is4() {
			return netip.AddrPortFrom(ipam.Gateway(r), dnsPort)
		}
	}
	return netip.AddrPort{}
}

// dns runs the DNS server of `gantry up`: on the bridge of its own Pod network, else on the node's
// address.
func (u *Up) dns(ctx context.Context, c runningCluster) error {
	f := &u.Node.DNS
	at, ok := f.clusterDNS(&u.Instance)
	if !ok {
		if f.enabled {
			u.Out.Step("warning: no DNS: --service-cluster-ip-range %s has no tenth address", u.Instance.ServiceCIDR)
		}
		<-ctx.Done()
		return nil
	}
	o := dns.Options{
		API:    c.server.InProcess(&user.DefaultInfo{Name: "gantry", Groups: []string{user.SystemPrivilegedGroup}}),
		Domain: u.Node.Loaded.Config.ClusterDomain,
		Node:   u.Instance.NodeName, Listen: dns.Listen{Cluster: at},
	}
	// a range that the Node will be given is not known yet
	if c.containerRuntime.Network && !u.Instance.PodNetwork.RangeFromNode() {
		own, err := network.ParseRanges(u.Instance.PodNetwork.PodCIDR)
		if err != nil {
			return err
		}
		o.Listen.Link, o.Listen.Bind = u.Instance.PodNetwork.Bridge, bridgeResolver(own, at)
	} else if ip, err := netip.ParseAddr(u.Instance.NodeIP); err == nil && !ip.IsLoopback() {
		o.Listen.Bind = netip.AddrPortFrom(ip, dnsPort)
	}
	return f.serve(ctx, o, u.Out.Step)
}

// serveNames runs the DNS server of a node that joined, at the gateway of its Pods: by the Service
// kube-dns each node's proxy leads them to their own server, and to another's where that has ended.
// Its answers go on while the API server is away.
func (k *Kubelet) serveNames(ctx context.Context, api *rest.Config, own []netip.Prefix) error {
	f, config := &k.Node.DNS, k.Node.Loaded.Config
	at := netip.Addr{}
	if len(config.ClusterDNS) > 0 {
		at, _ = netip.ParseAddr(config.ClusterDNS[0]) // checked with the configuration
	}
	if !f.enabled || !at.IsValid() {
		if f.enabled {
			k.logf("no DNS server of this node's own: the KubeletConfiguration names no clusterDNS")
		}
		<-ctx.Done()
		return nil
	}
	return f.serve(ctx, dns.Options{API: api, Domain: config.ClusterDomain, Node: k.Instance.NodeName,
		Listen: dns.Listen{Cluster: at, Bind: bridgeResolver(own, at)}, Withdraw: true}, k.logf)
}

// serve runs the server of a node by o and the flags until ctx ends. Where no address is named and
// none can be had, that is said, and all else goes on.
func (f *dnsFlags) serve(ctx context.Context, o dns.Options, logf func(string, ...any)) (err error) {
	if o.Base, o.NoUpstreams, err = f.settings("dns-"); err != nil {
		return err
	}
	if f.Bind != "" {
		list, err := plan.Servers([]string{f.Bind})
		if err != nil {
			return cli.UsageError(fmt.Errorf("--dns-bind-address: %w", err))
		}
		o.Listen.Bind = list[0]
	}
	o.ResolvConf = options.ResolvConf
	o.Publish = o.Listen.Bind.IsValid() && o.Listen.Bind.Addr().Is4() == o.Listen.Cluster.Is4() &&
		!o.Listen.Bind.Addr().IsLoopback()
	if o.HTTPListener, err = listenAuxiliary("DNS server", f.metrics, dnsMetrics, "dns-metrics-bind-address"); err !=
		nil {
		return err
	}
	s, err := dns.New(ctx, o)
	if err != nil && f.Bind == "" {
		logf("warning: no DNS: %v (another DNS server may have the port: choose an address with --dns-bind-address, "+
			"or --dns=false)", err)
		<-ctx.Done()
		return nil
	}
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// DNS is the DNS server alone.
type DNS struct {
	Role                                cli.Role
	DNS                                 dnsFlags
	Cluster, Domain, Link, Resolv, Node string
	Publish                             bool
}

// Run serves until ctx ends, which is no error. It returns an error where a flag does not fit, the
// host has no name, or the server cannot listen.
func (d *DNS) Run(ctx context.Context, cfg *rest.Config) error {
	base, alone, err := d.DNS.settings("")
	if err != nil {
		return err
	}
	o := dns.Options{API: cfg, Domain: strings.TrimSuffix(d.Domain, "."), Base: base, NoUpstreams: alone,
		ResolvConf: d.Resolv, Node: d.Node, Listen: dns.Listen{Link: d.Link, Release: true}}
	if d.Cluster != "" {
		if o.Listen.Cluster, err = netip.ParseAddr(d.Cluster); err != nil {
			return cli.UsageError(fmt.Errorf("--cluster-dns: %w", err))
		}
	} else if d.Link != "" {
		return cli.UsageError(errors.New("--link needs --cluster-dns, the address that the interface gets"))
	}
	if o.Node == "" {
		if o.Node, err = os.Hostname(); err != nil {
			return cli.WithFix(fmt.Errorf("this host has no name: %w", err), "give one with --hostname-override")
		}
	}
	o.Node = strings.ToLower(o.Node)
	bind := d.DNS.Bind
	if bind == "" {
		bind = options.HostAddress()
	}
	list, err := plan.Servers([]string{bind})
	if err != nil {
		return cli.UsageError(fmt.Errorf("--bind-address: %w", err))
	}
	o.Listen.Bind = list[0]
	o.Publish = d.Publish && d.Cluster != ""
	if o.Publish && o.Listen.Bind.Addr().IsLoopback() {
		return cli.UsageError(
			fmt.Errorf("--bind-address %s: an endpoint may not be a loopback address; choose another, or "+
				"--publish=false", bind))

	}
	if o.HTTPListener, err = listenAuxiliary("DNS server", d.DNS.metrics, dnsMetrics, "metrics-bind-address"); err !=
		nil {
		return err
	}
	s, err := dns.New(ctx, o)
	if err != nil {
		return cli.WithFix(err, "choose a free address with --bind-address, or run as root")
	}
	return s.Run(ctx)
}
