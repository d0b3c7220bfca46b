package simulate

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/simulate/source"
)

func newSnapshot(streams cli.IO) *cobra.Command {
	e := &cli.Inspector{Out: streams.Out}
	c := &cobra.Command{
		Use: "snapshot",
		Short: "Write a copy of the cluster that --from reads: nodes, Pods, workloads, usage; no Secrets, " +
			"no ConfigMaps",
		Example: "  gantry simulate snapshot > cluster.json\n" +
			"  gantry simulate drain node/node-1 --from cluster.json",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return snapshot(c, e, streams.Err) },
	}
	c.Flags().StringVar(&e.Kubeconfig, "kubeconfig", "",
		"kubeconfig of the API server (default: $KUBECONFIG, then what `gantry up` wrote)")
	return c
}

func snapshot(c *cobra.Command, e *cli.Inspector, errOut io.Writer) error {
	client, err := e.NewClient()
	if err != nil {
		return err
	}
	copied, err := source.FromCluster(c.Context(), client)
	if err != nil {
		return cli.WithFix(err, "ask for the right to list it")
	}
	if note := copied.Note(); note != "" {
		fmt.Fprintln(errOut, note)
	}
	if copied.Usage, err = source.Usage(c.Context(), client); err != nil {
		fmt.Fprintf(errOut, "what containers take is not in the copy, so `load` will take requests: %v\n", err)
	}
	return source.WriteSnapshot(e.Out, copied, time.Now().UTC())
}
