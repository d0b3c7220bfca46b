package server

import (
	"github.com/spf13/cobra"

	"github.com/gantry-project/gantry/internal/app"
	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/options"
)

// New is the API server alone.
func New(io cli.IO) *cobra.Command {
	p, l := &options.Instance{}, &cli.Logging{}
	c := &cobra.Command{
		Use: "server", Short: "Run the API server alone, with etcd inside or outside; needs no privileges",
		Example: "  gantry server --data-dir ~/gantry\n  gantry server --etcd-servers https://10.0.0.5:2379",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := p.Complete(); err != nil {
				return err
			}
			return app.RunServer(c.Context(), p, l, cli.NewProgress(io.Out))
		},
	}
	p.DataFlag(c.Flags())
	p.ServerFlags(c.Flags())
	c.Flags().StringVar(&p.NodeName, "node-name", "",
		"name for the certificates of a first node (default: the host's name)")
	c.Flags().StringVar(&p.NodeIP, "advertise-address", "",
		"address under which Pods and nodes reach the server (default: that of the default route)")
	l.Flags(c.Flags())
	return c
}
