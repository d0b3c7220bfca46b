package app

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gantry-project/gantry/internal/containerd"
)

func newImage(io IO) *cobra.Command {
	image := &cobra.Command{Use: "image", Short: "Bring images to this node without a registry", Example: "  gantry image import web.tar"}
	p := &place{}
	imports := &cobra.Command{
		Use:     "import FILE",
		Short:   "Import a docker or OCI archive into this instance's containerd",
		Example: "  sudo gantry image import web.tar\n  sudo gantry image import --data-dir /tmp/two web.tar",
		Args:    exactlyOne("the path of an image archive"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := p.complete(); err != nil {
				return err
			}
			names, err := containerd.ImportFile(c.Context(), p.containerdConfig(), args[0])
			if err != nil {
				return withFix(fmt.Errorf("import %s: %w", args[0], err), "check the file, and that `gantry up` runs with --data-dir %s", p.dataDir)
			}
			for _, n := range names {
				fmt.Fprintln(io.Out, "imported", n)
			}
			return nil
		},
	}
	p.dataFlag(imports.Flags())
	p.nodeFlags(imports.Flags())
	image.AddCommand(imports)
	return image
}
