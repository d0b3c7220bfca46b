package cmd

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/gantry-project/gantry/internal/cli"
)

func TestEverySubcommandHasHelpWithAnExample(t *testing.T) {
	var look func(all ...*cobra.Command)
	look = func(all ...*cobra.Command) {
		for _, c := range all {
			if c.Short == "" || c.Example == "" {
				t.Errorf("%s lacks a sentence or an example", c.CommandPath())
			}
			look(c.Commands()...)
		}
	}
	look(Root(cli.IO{}))
}
