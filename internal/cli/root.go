package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// Execute runs the verb that args name, says its error on errOut and returns the exit code.
func Execute(ctx context.Context, root *cobra.Command, args []string, errOut io.Writer) int {
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	klog.Flush()
	return Report(errOut, err)
}

// Root is gantry itself with these verbs.
func Root(io IO, verbs ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "gantry",
		Short: "Kubernetes' Pod machinery in one binary, so that a person can see it think",
		Long: "Kubernetes' Pod machinery in one binary, so that a person can see it think: API server, scheduler, " +
			"controllers, kubelet, Service proxy and DNS, together\n" +
			"(up) or one role at a time, and the commands that explain what they did (why, trace, lint, doctor, cri).",
		Example: "  sudo gantry up                                    # a cluster on this machine until Ctrl-C\n" +
			"  export KUBECONFIG=/var/lib/gantry/kubeconfig\n" +
			"  gantry kubectl get pods -A\n" +
			"  gantry why pod/web                                # what holds it up, and what to do\n" +
			"  gantry trace pod/web                              # its life, step by step\n" +
			"  sudo gantry clean                                 # takes all but the data away again",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetOut(io.Out)
	root.SetErr(io.Err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return UsageError(fmt.Errorf("%w; see %q", err, c.CommandPath()+" --help"))
	})
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		quoteCommands(c.Flags())
		help(c, args)
	})
	root.AddCommand(verbs...)
	return root
}

// quoteCommands puts commands that flags' texts have in backquotes into double quotes: help takes
// the first text in backquotes for the name of the flag's value, which has no space.
func quoteCommands(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if name, _ := pflag.UnquoteUsage(f); strings.Contains(name, " ") {
			f.Usage = strings.ReplaceAll(f.Usage, "`", `"`)
		}
	})
}
