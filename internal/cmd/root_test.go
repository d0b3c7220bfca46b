package cmd

import (
	"strings"
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

// A sentence goes on over the lines that the source has; what is indented stays as it is.
func TestTextsAreWrapped(t *testing.T) {
	long := strings.Repeat("word ", 30) + "end."
	for text, want := range map[string]string{
		"one\ntwo.\nthree":  "one two.\nthree",
		"a:\n  kept\n  too": "a:\n  kept\n  too",
		"a\n\nb":            "a\n\nb",
		long:                strings.Repeat("word ", 19) + "word\n" + strings.Repeat("word ", 10) + "end.",
	} {
		if got := wrapText(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
