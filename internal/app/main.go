package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"
	// client-go's metrics: informers, work queues, requests, leases
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	"k8s.io/klog/v2"
)

// Exit codes of every subcommand.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// IO are the streams a subcommand talks to.
type IO struct{ Out, Err io.Writer }

// Main runs the subcommand that argv names and returns the exit code. The binary is multi-call: a
// link named kubectl is kubectl.
func Main(ctx context.Context, argv []string, out, errOut io.Writer) int {
	if code, ok := otherProgram(argv); ok {
		return code
	}
	return execute(ctx, Root(IO{Out: out, Err: errOut}), argv[1:], errOut)
}

// execute runs the verb that args name, says its error on errOut and returns the exit code.
func execute(ctx context.Context, root *cobra.Command, args []string, errOut io.Writer) int {
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	klog.Flush()
	return report(errOut, err)
}

// otherProgram runs the programs that live in this binary beside Gantry: containerd and kubectl.
func otherProgram(argv []string) (int, bool) {
	switch {
	case filepath.Base(argv[0]) == "kubectl":
		return runKubectl(argv[1:]), true
	case len(argv) > 1 && argv[1] == "kubectl":
		return runKubectl(argv[2:]), true
	case len(argv) > 1 && argv[1] == "containerd":
		return runContainerd(argv[2:]), true
	}
	return 0, false
}

// Root is the command tree.
func Root(io IO) *cobra.Command { return newRoot(io, commands(io)...) }

// newRoot is gantry itself with these verbs.
func newRoot(io IO, verbs ...*cobra.Command) *cobra.Command {
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
		return usageError(fmt.Errorf("%w; see %q", err, c.CommandPath()+" --help"))
	})
	root.AddCommand(verbs...)
	return root
}

// wrongUsage is a wrong call, as opposed to a call that failed.
type wrongUsage struct{ error }

func (u wrongUsage) Unwrap() error { return u.error }

// usageError marks err as a wrong call, which ends with its own exit code.
func usageError(err error) error { return wrongUsage{err} }

// isUsageError tells whether err is a wrong call.
func isUsageError(err error) bool {
	var u wrongUsage
	return errors.As(err, &u)
}

// errorWithFix is an error that carries what a person can do about it.
type errorWithFix struct {
	err error
	fix string
}

func (r errorWithFix) Error() string { return r.err.Error() }
func (r errorWithFix) Unwrap() error { return r.err }

// withFix attaches a remedy to an error; nil stays nil.
func withFix(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return errorWithFix{err, fmt.Sprintf(format, args...)}
}

// report prints an error as one sentence with its remedy and chooses the exit code.
func report(w io.Writer, err error) int {
	if err == nil || errors.Is(err, context.Canceled) {
		return exitOK
	}
	fmt.Fprintf(w, "gantry: %v\n", err)
	var r errorWithFix
	if errors.As(err, &r) {
		fmt.Fprintf(w, "  → %s\n", r.fix)
	}
	if isUsageError(err) {
		return exitUsage
	}
	return exitError
}
