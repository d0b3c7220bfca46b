package proxy

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/app"
	"github.com/gantry-project/gantry/internal/cli"
)

// New is the proxy alone; its flags are named as upstream's.
func New(io cli.IO) *cobra.Command {
	p := &app.Proxy{}
	p.Role.Without = func(ctx context.Context) error {
		if p.Clean {
			return p.CleanUp(ctx, cli.NewProgress(io.Out))
		}
		if loaded, err := app.LoadProxyConfig(p.Proxy.File); err != nil || loaded.ClientConnection.Kubeconfig == "" {
			return errors.Join(err,
				cli.UsageError(errors.New(
					`gantry proxy wants --kubeconfig, or --config with clientConnection.kubeconfig; see "gantry `+
						`proxy `+
						`--help"`)),
			)
		} else if p.Role.Kubeconfig = loaded.ClientConnection.Kubeconfig; true {
			cfg, _, err := cli.RestConfig(p.Role.Kubeconfig)
			if err != nil {
				return err
			}
			return p.Run(ctx, cfg)
		}
		return nil
	}
	c := p.Role.Command(&cobra.Command{
		Use: "proxy", Short: "Run the Service proxy alone, against any Kubernetes API server",
		Long: "proxy leads what is sent to Services to their endpoints, by nftables. What it put there stays when it " +
			"stops, and is taken over at the next start;\n" +
			"--cleanup takes it away.",
		Example: "  sudo gantry proxy --kubeconfig /etc/kubernetes/proxy.conf --cluster-cidr 10.72.0.0/16\n  sudo " +
			"gantry proxy --cleanup",
	}, func(ctx context.Context, cfg *rest.Config) error {
		if p.Clean {
			return p.CleanUp(ctx, cli.NewProgress(io.Out))
		}
		return p.Run(ctx, cfg)
	})
	f := c.Flags()
	f.StringVar(&p.DataDir, "data-dir", cli.DefaultDataDir,
		"directory of the instance whose tables these are; it need not exist")
	f.StringVar(&p.Proxy.File, "config", "", "KubeProxyConfiguration file; flags come after it")
	f.StringVar(&p.Node, "hostname-override", "", "name of this node (default: the host's name)")
	f.StringVar(&p.ClusterCIDR, "cluster-cidr", "",
		"addresses of the cluster's Pods; what comes to a cluster IP from elsewhere is masqueraded")
	f.StringSliceVar(&p.NodePorts, "nodeport-addresses", nil,
		"ranges of this node's addresses that have node ports (default: all of its addresses)")
	f.BoolVar(&p.MasqueradeAll, "masquerade-all", false, "masquerade everything that comes to a cluster IP")
	f.StringVar(&p.Proxy.Healthz, "healthz-bind-address", app.ProxyHealthz,
		"address of the health server; empty serves none")
	f.StringVar(&p.Proxy.Metrics, "metrics-bind-address", app.ProxyMetrics,
		"address of the metrics server; empty serves none")
	f.BoolVar(&p.Clean, "cleanup", false, "take this proxy's tables away and exit")
	f.BoolVar(&p.Clean, "clean", false, "the same as --cleanup")
	return c
}
