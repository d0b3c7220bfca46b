package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// OneOrMore is cobra.MinimumNArgs(1) with a message that says what is missing.
func OneOrMore(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return nil
		}
		return UsageError(fmt.Errorf("%s wants %s; see %q", c.CommandPath(), what, c.CommandPath()+" --help"))
	}
}

// ExactlyOne is cobra.ExactArgs with a message that says what is missing.
func ExactlyOne(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return UsageError(fmt.Errorf("%s wants %s; see %q", c.CommandPath(), what, c.CommandPath()+" --help"))
	}
}
