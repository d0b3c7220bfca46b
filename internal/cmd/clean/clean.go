package clean

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/gantry-project/gantry/internal/app"
	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/options"
)

func New(io cli.IO) *cobra.Command {
	p := &options.Instance{}
	data := false
	c := &cobra.Command{
		Use: "clean",
		Short: "Remove what an instance left on this machine: containers, containerd, mounts, network, cgroups; with " +
			"--data its data too",
		Long: "clean ends the Pods and the container runtime of the instance in DATA-DIR and takes away its mounts, " +
			"network links, rules and cgroups, and nothing of anybody else's.\n" +
			"The API's data stays unless --data is given.",
		Example: "  sudo gantry clean\n  sudo gantry clean --data-dir /tmp/two --data",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := p.Complete(); err != nil {
				return err
			}
			if err := cli.RequireRoot("gantry clean"); err != nil {
				return err
			}
			if _, err := os.Stat(p.DataDir); errors.Is(err, os.ErrNotExist) {
				return cli.WithFix(fmt.Errorf("there is no instance in %s", p.DataDir),
					"name its directory with --data-dir")
			}
			lock, err := options.LockDataDir(p.DataDir)
			if err != nil {
				return err
			}
			defer lock.Release()
			out := cli.NewProgress(io.Out)
			if err := app.Clean(c.Context(), p, out); err != nil {
				return err
			}
			if data {
				kubelet := p.KubeletDir()
				if err := os.RemoveAll(p.DataDir); err != nil {
					return err
				}
				out.Step("data directory %s removed", p.DataDir)
				if _, err := os.Stat(kubelet); err == nil {
					out.Step("%s, the kubelet's directory, stays: it may have files of others", kubelet)
				}
			}
			return nil
		},
	}
	p.DataFlag(c.Flags())
	p.NodeFlags(c.Flags())
	c.Flags().BoolVar(&data, "data", false, "remove the data directory as well: every object, certificate and image")
	return c
}
