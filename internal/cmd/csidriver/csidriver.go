package csidriver

import (
	"github.com/spf13/cobra"

	"github.com/gantry-project/gantry/internal/app"
	"github.com/gantry-project/gantry/internal/cli"
)

// New is the driver of local volumes alone.
func New(cli.IO) *cobra.Command {
	d := &app.CSIDriver{}
	d.Role.Without = d.RunWithoutKubeconfig
	c := d.Role.Command(&cobra.Command{
		Use: "csi-driver", Short: "Run the CSI driver of local volumes alone, on a node of any Kubernetes cluster",
		Long: "csi-driver serves volumes on this node's disk by CSI, as `gantry up` does for its own node, and " +
			"registers with the node's kubelet. Volumes stay\n" +
			"mounted when it stops. Without --kubeconfig it uses the ServiceAccount of the Pod it runs in; `gantry " +
			"manifests csi-driver` prints such a DaemonSet.",
		Example: "  sudo gantry csi-driver --kubeconfig local-storage.kubeconfig --node-name node-2 --kubelet-dir " +
			"/var/lib/gantry/kubelet\n" +
			"  gantry manifests csi-driver --image registry.example/gantry:1 | kubectl apply -f -",
	}, d.Run)
	d.Flags(c.Flags())
	return c
}
