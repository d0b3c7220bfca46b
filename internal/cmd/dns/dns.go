package dns

import (
	"github.com/spf13/cobra"

	"github.com/gantry-project/gantry/internal/app"
	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/options"
)

// New is the DNS server alone.
func New(io cli.IO) *cobra.Command {
	d := &app.DNS{}
	c := d.Role.Command(&cobra.Command{
		Use: "dns", Short: "Run the cluster's DNS server alone, against any Kubernetes API server",
		Long: "dns answers the cluster's names with CoreDNS's kubernetes plugin and asks upstream about others. The " +
			"ConfigMap kube-system/kube-dns\n" +
			"(stubDomains, upstreamNameservers) comes over the flags. With --cluster-dns it keeps the Service " +
			"kube-dns at that address and an EndpointSlice\n" +
			"for itself; with --link, that interface gets the address too, and Pods behind it need no Service proxy.",
		Example: "  sudo gantry dns --kubeconfig /etc/kubernetes/dns.conf --cluster-dns 10.96.0.10\n" +
			"  sudo gantry dns --kubeconfig dns.conf --cluster-dns 10.96.0.10 --link gantry0 --bind-address " +
			"10.72.0.1 --upstream 192.0.2.53",
	}, d.Run)
	f := c.Flags()
	d.DNS.Flags(f, "")
	f.StringVar(&d.DNS.Bind, "bind-address", "", "address[:port] to answer at (default: the node's, port 53)")
	f.StringVar(&d.Cluster, "cluster-dns", "", "DNS address of the cluster, as kubelets have it in clusterDNS")
	f.StringVar(&d.Domain, "cluster-domain", "cluster.local", "domain of the cluster")
	f.StringVar(&d.Link, "link", "",
		"interface by which this node's Pods come in; it gets the address of --cluster-dns")
	f.StringVar(&d.Resolv, "resolv-conf", options.ResolvConf,
		"resolver file whose servers are asked about names outside the cluster")
	f.StringVar(&d.Node, "hostname-override", "", "name of this node (default: the host's name)")
	f.BoolVar(&d.Publish, "publish", true,
		"keep the Service kube-dns and an EndpointSlice for this server, when --cluster-dns is given")
	return c
}
