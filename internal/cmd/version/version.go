package version

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gantry-project/gantry/internal/cli"
)

func New(io cli.IO) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version and the Kubernetes API level", Example: "  gantry version",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(io.Out, "gantry %s, Kubernetes v%s\n", cli.BuildRevision(), cli.KubeVersion)
			return err
		},
	}
}
