package image

import (
	"context"
	"errors"
	"fmt"
	stdio "io"

	"github.com/spf13/cobra"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/containerd"
	"github.com/gantry-project/gantry/internal/options"
)

func New(io cli.IO) *cobra.Command {
	image := &cobra.Command{Use: "image", Short: "Bring images to this node without a registry",
		Example: "  gantry image import web.tar"}
	p := &options.Instance{}
	imports := &cobra.Command{
		Use:   "import FILE…",
		Short: "Import docker or OCI archives into this instance's containerd",
		Long: "import loads image archives, as `docker save` and `skopeo copy` write them, plain or gzipped. An " +
			"archive that cannot be imported is named, the others are\n" +
			"imported all the same. Archives in DATA-DIR/images need no command: gantry imports them at its start, " +
			"and while it runs as soon as they are complete.",
		Example: "  sudo gantry image import web.tar db.tar\n  sudo gantry image import --data-dir /tmp/two *.tar",
		Args:    cli.OneOrMore("the path of an image archive, or several"),
		RunE: func(c *cobra.Command, files []string) error {
			if err := p.Complete(); err != nil {
				return err
			}
			return importAll(c.Context(), files, io.Out, func(ctx context.Context, file string) ([]string, error) {
				names, err := containerd.ImportFile(ctx, p.ContainerdConfig(), file)
				return names, cli.WithFix(err, "check the file, and that `gantry up` runs with --data-dir %s%s",
					p.DataDir,
					options.RunningInstances())
			})
		},
	}
	p.DataFlag(imports.Flags())
	p.NodeFlags(imports.Flags())
	image.AddCommand(imports)
	return image
}

// importAll imports each file and prints the names of its images. One that fails does not keep the
// others back; the error names all that failed.
func importAll(ctx context.Context, files []string, out stdio.Writer,
	one func(ctx context.Context, file string) ([]string, error)) error {
	var errs []error
	for _, file := range files {
		names, err := one(ctx, file)
		if err != nil {
			errs = append(errs, fmt.Errorf("import %s: %w", file, err))
			if ctx.Err() != nil {
				break
			}
		}
		for _, n := range names {
			fmt.Fprintln(out, "imported", n)
		}
	}
	return errors.Join(errs...)
}
