package up

import (
	"github.com/spf13/cobra"

	"github.com/gantry-project/gantry/internal/app"
	"github.com/gantry-project/gantry/internal/cli"
)

func New(io cli.IO) *cobra.Command {
	u := &app.Up{}
	c := &cobra.Command{
		Use: "up",
		Short: "Run a whole cluster on this machine: API server with etcd, scheduler, controllers, kubelet, " +
			"container runtime",
		Long: "up runs everything in one process, with containerd as a child that outlives it. It writes a " +
			"kubeconfig into the data directory and prints each step.\n" +
			"Ctrl-C or SIGTERM stops it; Pods run on unless --stop-pods is given, and the next `gantry up` with the " +
			"same data directory takes them over.",
		Example: "  sudo gantry up\n  sudo gantry up --data-dir /tmp/two --secure-port 7443 --kubelet-port 11250 " +
			"--bridge two0 --pod-cidr 10.73.0.0/16\n" +
			"  sudo gantry up --cluster-cidr 10.72.0.0/14 --node-ip 192.0.2.2    # other machines can join: " +
			"docs/user/joining.md\n  export KUBECONFIG=/var/lib/gantry/kubeconfig; kubectl get nodes",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			u.Out = cli.NewProgress(io.Out)
			return u.Run(c.Context())
		},
	}
	f := c.Flags()
	u.Instance.DataFlag(f)
	u.Instance.ServerFlags(f)
	u.Instance.NodeFlags(f)
	u.Node.Flags(f)
	u.HPA.Flags(f)
	u.Nodes.Flags(f)
	u.Volumes.Flags(f)
	u.Tokens.Flags(f)
	u.Page.Flags(f)
	u.Log.Flags(f)
	f.BoolVar(&u.Clean, "clean", false,
		"take everything but the data away when gantry stops: Pods, container runtime, mounts, network, cgroups")
	f.BoolVar(&u.StopPods, "stop-pods", false,
		"stop all Pods and the container runtime when gantry stops; default: they run on")
	return c
}
