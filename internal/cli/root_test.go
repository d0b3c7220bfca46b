package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A command in a flag's text is not the name of the flag's value; one word in backquotes is.
func TestHelpKeepsCommandsInFlagsTexts(t *testing.T) {
	var out bytes.Buffer
	verb := &cobra.Command{Use: "x", Run: func(*cobra.Command, []string) {}}
	verb.Flags().Bool("keep", true, "keep it for `gantry simulate score`")
	verb.Flags().String("file", "", "read this `NAME`")
	root := Root(IO{Out: &out, Err: &out}, verb)
	if code := Execute(t.Context(), root, []string{"x", "--help"}, &out); code != 0 {
		t.Fatalf("got exit code %d, want 0:\n%s", code, out.String())
	}
	for _, want := range []string{"--keep ", `keep it for "gantry simulate score" (default true)`, "--file NAME"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got no %q in help:\n%s", want, out.String())
		}
	}
	if wrong := "--keep gantry"; strings.Contains(out.String(), wrong) {
		t.Errorf("got %q in help, want the flag alone:\n%s", wrong, out.String())
	}
}
