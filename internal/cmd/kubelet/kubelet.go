package kubelet

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/app"
	"github.com/gantry-project/gantry/internal/app/noderole"
	"github.com/gantry-project/gantry/internal/cli"
	kubeconfig "github.com/gantry-project/gantry/internal/kubelet/config"
)

func New(io cli.IO) *cobra.Command {
	k := &app.Kubelet{}
	k.Role.Without = func(ctx context.Context) error { return k.RunStandalone(ctx, cli.NewProgress(io.Err)) }
	c := k.Role.Command(&cobra.Command{
		Use: "kubelet", Aliases: []string{"node"}, Short: "Run a node alone, for any Kubernetes API server",
		Long: "kubelet runs a node. Files that are not named are taken from " + kubeletKubeconfig + " and " +
			kubeletConfigFile + " when they are there.\n" +
			"docs/examples/kubelet.service is a unit file for systemd (--print-unit prints one); " +
			"docs/user/joining.md says " +
			"which files a machine needs to join.",
		Example: "  sudo gantry kubelet --kubeconfig /etc/kubernetes/kubelet.conf --config " +
			"/var/lib/kubelet/config.yaml\n  sudo gantry kubelet --kubeconfig node.conf --container-runtime-endpoint " +
			"unix:///run/containerd/containerd.sock",
	}, func(ctx context.Context, cfg *rest.Config) error { return k.Run(ctx, cfg, cli.NewProgress(io.Err)) })
	f := c.Flags()
	k.Instance.DataFlag(f)
	k.Instance.NodeFlags(f)
	k.Node.KubeletFlags(f)
	k.Node.DNS.NodeFlags(f)
	f.StringVar(&k.Network, "network-kubeconfig", "",
		"kubeconfig that may do what docs/examples/network-agent-rbac.yaml says, so that Pods of other nodes are "+
			"reached, policies enforced and names answered here; a file that is not there is written when the "+
			"request for its certificate is approved (default: neither)")
	k.Node.ConfigFlags(f, "")
	f.StringVar(&k.Instance.NodeName, "hostname-override", "", "name of this node")
	f.StringVar(&k.ClientCA, "client-ca-file", "",
		"authorities of client certificates for the kubelet's port (default: tokens only)")
	f.StringVar(&k.Pair.Cert, "tls-cert-file", "",
		"serving certificate of the kubelet's port (default: a self-signed one)")
	f.StringVar(&k.Pair.Key, "tls-private-key-file", "", "its key")
	f.StringVar(&k.BootstrapKubeconfig, "bootstrap-kubeconfig", "",
		"kubeconfig with which a client certificate is asked for, and the file of --kubeconfig written, when that is "+
			"not there yet")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		conventionalPaths(k, "", c.Flags())
		if k.BootstrapKubeconfig == "" || k.Role.Kubeconfig == "" || cli.Readable(k.Role.Kubeconfig) {
			return nil
		}
		if err := k.Instance.Complete(); err != nil {
			return err
		}
		return noderole.Bootstrap(c.Context(), &k.Instance, k.BootstrapKubeconfig, k.Role.Kubeconfig)
	}
	k.Node.ConfigSources.Flags = &kubeconfig.Flags{}
	k.Node.ConfigSources.Flags.Register(f)
	return c
}

// Where kubeadm and the documents put a kubelet's files.
const (
	kubeletKubeconfig = "/etc/kubernetes/kubelet.conf"
	kubeletConfigFile = "/var/lib/kubelet/config.yaml"
)

// conventionalPaths takes the files of the conventional places when they are there and no others
// are named. root is put before them; empty but in tests.
func conventionalPaths(k *app.Kubelet, root string, f *pflag.FlagSet) {
	take := func(flag string, to *string, file string) {
		if !f.Changed(flag) && *to == "" && cli.Readable(root+file) {
			*to = root + file
		}
	}
	take("kubeconfig", &k.Role.Kubeconfig, kubeletKubeconfig)
	take("config", &k.Node.ConfigSources.File, kubeletConfigFile)
}
