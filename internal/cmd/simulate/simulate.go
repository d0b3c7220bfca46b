// Package simulate is `gantry simulate`: what would happen, by the functions that decide.
package simulate

import (
	"github.com/spf13/cobra"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/cmd/simulate/eviction"
)

func New(io cli.IO) *cobra.Command {
	c := &cobra.Command{Use: "simulate", Short: "Say what would happen, by the same functions that decide",
		Example: "  gantry simulate eviction -f mix.yaml", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(eviction.NewEvictionCommand(io))
	return c
}
