package app

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/dns"
	"github.com/gantry-project/gantry/internal/dns/plan"
	"github.com/gantry-project/gantry/internal/doctor"
	"github.com/gantry-project/gantry/internal/network"
	"github.com/gantry-project/gantry/internal/network/ipam"
)

const (
	dnsMetrics = "127.0.0.1:9153"
	dnsPort    = 53
	resolvConf = "/etc/resolv.conf"
	// resolvedConf is what systemd-resolved knows when /etc/resolv.conf names only its own stub on
	// loopback, which Pods cannot reach.
	resolvedConf = "/run/systemd/resolve/resolv.conf"
)

// dnsFlags are the DNS server's.
type dnsFlags struct {
	enabled   bool
	bind      string
	upstreams []string
	stubs     []string
	metrics   string
}

// flags registers them; in `gantry up` every name begins with dns-.
func (o *dnsFlags) flags(f *pflag.FlagSet, prefix string) {
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

// nodeFlags are those of `gantry kubelet`.
func (o *dnsFlags) nodeFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.enabled, "dns", true,
		"with --network-kubeconfig and --cluster-cidr, answer the cluster's names to this node's Pods, as clusterDNS "+
			"of the KubeletConfiguration; false leaves that to other nodes")
	o.standaloneFlags(f)
}

// standaloneFlags are those of a server that runs beside a kubelet.
func (o *dnsFlags) standaloneFlags(f *pflag.FlagSet) {
	f.StringVar(&o.bind, "dns-bind-address", "",
		"address[:port] where other nodes ask this one's DNS server (default: the gateway of the Pod network, port 53)")
	o.flags(f, "dns-")
}

// settings reads upstreams and stub domains; alone tells that nobody is to be asked.
func (o *dnsFlags) settings(prefix string) (base plan.Settings, alone bool, err error) {
	list := o.upstreams
	if len(list) == 1 && list[0] == "none" {
		list, alone = nil, true
	}
	if base.Upstreams, err = plan.Servers(list); err != nil {
		return base, false, usageError(fmt.Errorf("--%supstream: %w", prefix, err))
	}
	domains := map[string][]string{}
	for _, text := range o.stubs {
		domain, servers, ok := strings.Cut(text, "=")
		if !ok {
			return base, false,
				usageError(fmt.Errorf("--%sstub-domain %q: must be DOMAIN=address[:port],…", prefix, text))
		}
		domains[domain] = append(domains[domain], strings.Split(servers, ",")...)
	}
	if base.Stubs, err = plan.Stubs(domains); err != nil {
		return base, false, usageError(fmt.Errorf("--%sstub-domain: %w", prefix, err))
	}
	return base, alone, nil
}

// clusterDNS is the address Pods ask: the tenth of the Services' range; none when DNS is off or the
// range too small.
func (o *dnsFlags) clusterDNS(p *instanceOptions) (netip.Addr, bool) {
	ranges, err := p.serviceRanges()
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
func (u *upCommand) dns(ctx context.Context, c runningCluster) error {
	f := &u.node.dns
	at, ok := f.clusterDNS(&u.instance)
	if !ok {
		if f.enabled {
			u.out.step("warning: no DNS: --service-cluster-ip-range %s has no tenth address", u.instance.serviceCIDR)
		}
		<-ctx.Done()
		return nil
	}
	o := dns.Options{
		API:    c.server.InProcess(&user.DefaultInfo{Name: "gantry", Groups: []string{user.SystemPrivilegedGroup}}),
		Domain: u.node.loaded.Config.ClusterDomain,
		Node:   u.instance.nodeName, Listen: dns.Listen{Cluster: at},
	}
	if c.engine.network && !u.instance.podNetwork.rangeFromNode() { // a range that the Node will be given is not known yet
		own, err := network.ParseRanges(u.instance.podNetwork.podCIDR)
		if err != nil {
			return err
		}
		o.Listen.Link, o.Listen.Bind = u.instance.podNetwork.bridge, bridgeResolver(own, at)
	} else if ip, err := netip.ParseAddr(u.instance.nodeIP); err == nil && !ip.IsLoopback() {
		o.Listen.Bind = netip.AddrPortFrom(ip, dnsPort)
	}
	return f.serve(ctx, o, u.out.step)
}

// serveNames runs the DNS server of a node that joined, at the gateway of its Pods: by the Service
// kube-dns each node's proxy leads them to their own server, and to another's where that has ended.
// Its answers go on while the API server is away.
func (k *kubeletCommand) serveNames(ctx context.Context, api *rest.Config, own []netip.Prefix) error {
	f, config := &k.node.dns, k.node.loaded.Config
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
	return f.serve(ctx, dns.Options{API: api, Domain: config.ClusterDomain, Node: k.instance.nodeName,
		Listen: dns.Listen{Cluster: at, Bind: bridgeResolver(own, at)}, Withdraw: true}, k.logf)
}

// serve runs the server of a node by o and the flags until ctx ends. Where no address is named and
// none can be had, that is said, and all else goes on.
func (f *dnsFlags) serve(ctx context.Context, o dns.Options, logf func(string, ...any)) (err error) {
	if o.Base, o.NoUpstreams, err = f.settings("dns-"); err != nil {
		return err
	}
	if f.bind != "" {
		list, err := plan.Servers([]string{f.bind})
		if err != nil {
			return usageError(fmt.Errorf("--dns-bind-address: %w", err))
		}
		o.Listen.Bind = list[0]
	}
	o.ResolvConf = resolvConf
	o.Publish = o.Listen.Bind.IsValid() && o.Listen.Bind.Addr().Is4() == o.Listen.Cluster.Is4() &&
		!o.Listen.Bind.Addr().IsLoopback()
	if o.HTTPListener, err = listenAuxiliary("DNS server", f.metrics, dnsMetrics, "dns-metrics-bind-address"); err !=
		nil {
		return err
	}
	s, err := dns.New(ctx, o)
	if err != nil && f.bind == "" {
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

// dnsCommand is the DNS server alone.
type dnsCommand struct {
	role                                roleOptions
	dns                                 dnsFlags
	cluster, domain, link, resolv, node string
	publish                             bool
}

// newDNS is the DNS server alone.
func newDNS(io IO) *cobra.Command {
	d := &dnsCommand{role: roleOptions{electable: true}}
	c := d.role.command(&cobra.Command{
		Use: "dns", Short: "Run the cluster's DNS server alone, against any Kubernetes API server",
		Long: "dns answers the cluster's names with CoreDNS's kubernetes plugin and asks upstream about others. The " +
			"ConfigMap kube-system/kube-dns\n" +
			"(stubDomains, upstreamNameservers) comes over the flags. With --cluster-dns it keeps the Service " +
			"kube-dns at that address and an EndpointSlice\n" +
			"for itself; with --link, that interface gets the address too, and Pods behind it need no Service proxy.",
		Example: "  sudo gantry dns --kubeconfig /etc/kubernetes/dns.conf --cluster-dns 10.96.0.10\n" +
			"  sudo gantry dns --kubeconfig dns.conf --cluster-dns 10.96.0.10 --link gantry0 --bind-address " +
			"10.72.0.1 " +
			"--upstream 192.0.2.53",
	}, d.run)
	f := c.Flags()
	d.dns.flags(f, "")
	f.StringVar(&d.dns.bind, "bind-address", "", "address[:port] to answer at (default: the node's, port 53)")
	f.StringVar(&d.cluster, "cluster-dns", "", "DNS address of the cluster, as kubelets have it in clusterDNS")
	f.StringVar(&d.domain, "cluster-domain", "cluster.local", "domain of the cluster")
	f.StringVar(&d.link, "link", "",
		"interface by which this node's Pods come in; it gets the address of --cluster-dns")
	f.StringVar(&d.resolv, "resolv-conf", resolvConf,
		"resolver file whose servers are asked about names outside the cluster")
	f.StringVar(&d.node, "hostname-override", "", "name of this node (default: the host's name)")
	f.BoolVar(&d.publish, "publish", true,
		"keep the Service kube-dns and an EndpointSlice for this server, when --cluster-dns is given")
	return c
}

func (d *dnsCommand) run(ctx context.Context, cfg *rest.Config) error {
	base, alone, err := d.dns.settings("")
	if err != nil {
		return err
	}
	o := dns.Options{API: cfg, Domain: strings.TrimSuffix(d.domain, "."), Base: base, NoUpstreams: alone,
		ResolvConf: d.resolv, Node: d.node, Listen: dns.Listen{Link: d.link, Release: true}}
	if d.cluster != "" {
		if o.Listen.Cluster, err = netip.ParseAddr(d.cluster); err != nil {
			return usageError(fmt.Errorf("--cluster-dns: %w", err))
		}
	} else if d.link != "" {
		return usageError(errors.New("--link needs --cluster-dns, the address that the interface gets"))
	}
	if o.Node == "" {
		if o.Node, err = os.Hostname(); err != nil {
			return withFix(fmt.Errorf("this host has no name: %w", err), "give one with --hostname-override")
		}
	}
	o.Node = strings.ToLower(o.Node)
	bind := d.dns.bind
	if bind == "" {
		bind = hostAddress()
	}
	list, err := plan.Servers([]string{bind})
	if err != nil {
		return usageError(fmt.Errorf("--bind-address: %w", err))
	}
	o.Listen.Bind = list[0]
	o.Publish = d.publish && d.cluster != ""
	if o.Publish && o.Listen.Bind.Addr().IsLoopback() {
		return usageError(
			fmt.Errorf("--bind-address %s: an endpoint may not be a loopback address; choose another, or "+
				"--publish=false", bind))

	}
	if o.HTTPListener, err = listenAuxiliary("DNS server", d.dns.metrics, dnsMetrics, "metrics-bind-address"); err != nil {
		return err
	}
	s, err := dns.New(ctx, o)
	if err != nil {
		return withFix(err, "choose a free address with --bind-address, or run as root")
	}
	return s.Run(ctx)
}

// podResolverFile is the resolver file that Pods get: not one that names only loopback addresses
// when systemd-resolved has a better one.
func podResolverFile(read func(string) ([]byte, error)) string {
	text, err := read(resolvConf)
	if err != nil {
		return resolvConf
	}
	for _, s := range plan.Nameservers(string(text), nil) {
		if !s.Addr().IsLoopback() {
			return resolvConf
		}
	}
	if text, err := read(resolvedConf); err == nil && len(plan.Nameservers(string(text), nil)) > 0 {
		return resolvedConf
	}
	return resolvConf
}

// resolverOf reads the servers of a resolver file for the doctor; no file is nothing to judge.
func resolverOf(path string) *doctor.Resolver {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	r := &doctor.Resolver{Path: path, Err: err}
	for _, s := range plan.Nameservers(string(text), nil) {
		r.Servers = append(r.Servers, s.Addr().String())
	}
	return r
}
