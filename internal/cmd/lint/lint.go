package lint

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/probelint"
)

// lintCommand is the lint subcommand.
type lintCommand struct {
	cli.Inspector
	in       io.Reader
	files    []string
	all      bool
	failOn   string
	measured probelint.Measured
}

// lintResult is one object with what was found.
type lintResult struct {
	Source     string              `json:"source"`
	Kind       string              `json:"kind"`
	Namespace  string              `json:"namespace,omitempty"`
	Name       string              `json:"name,omitempty"`
	Duplicates int                 `json:"alike,omitempty"` // other Pods of the same owner and text
	Findings   []probelint.Finding `json:"findings"`
}

func New(io cli.IO) *cobra.Command {
	l := &lintCommand{Inspector: cli.Inspector{Out: io.Out}}
	c := &cobra.Command{
		Use:   "lint [pod/NAME ...]",
		Short: "Check probes before they do harm: in files, or of running Pods",
		Long: "lint reads Pods and Pod templates of any kind, from files (-f, directories, - for standard input) or " +
			"from the API server, and says which probes will restart, hide\n" +
			"or slow down a container that is well: with the sums, and with what to change. Services in the same " +
			"input tell which Pods get traffic. Of a Pod that runs it also\n" +
			"knows how long it took to become ready.\n\nRules:\n" + ruleHelp() +
			"\nThe exit code is 0 when nothing was found that is as bad as --fail-on, 1 when something was, 2 for a " +
			"wrong call.",
		Example: "  gantry lint -f deploy.yaml\n  kustomize build . | gantry lint -f -\n  gantry lint -f manifests/ " +
			"--startup-time 60s --p99 800ms -o json\n  gantry lint pod/web -n shop\n  gantry lint --all",
		RunE: func(c *cobra.Command, args []string) error {
			l.in = c.InOrStdin()
			return l.run(c.Context(), args)
		},
	}
	l.Flags(c, "text (default), json")
	c.Flags().StringArrayVarP(&l.files, "filename", "f", nil,
		"file or directory with objects as YAML or JSON, - for standard input; may be given again")
	c.Flags().BoolVar(&l.all, "all", false, "all Pods of the API server; with -n those of one namespace")
	c.Flags().StringVar(&l.failOn, "fail-on", "warning",
		"least severity that makes the exit code 1: error, warning, info, or none")
	c.Flags().DurationVar(&l.measured.Start, "startup-time", 0,
		"how long the containers take until they can serve (default: as seen on Pods that run)")
	c.Flags().DurationVar(&l.measured.P99, "p99", 0, "99th percentile of the time a probe's endpoint takes to answer")
	return c
}

func ruleHelp() string {
	var b strings.Builder
	for _, r := range probelint.Rules() {
		fmt.Fprintf(&b, "  %-26s%s\n", r.ID, r.About)
	}
	fmt.Fprintf(&b, "  %-26s%s\n", "unknown-field", "a field that a Pod does not have, like a misspelt probe")
	return b.String()
}

func (l *lintCommand) run(ctx context.Context, args []string) error {
	if err := l.validateFlags(args); err != nil {
		return err
	}
	var input lintBatch
	var err error
	if len(l.files) > 0 {
		input, err = readFiles(l.files, l.in)
	} else {
		input, err = l.readCluster(ctx, args)
	}
	if err != nil {
		return err
	}
	var out []lintResult
	for _, w := range input.workloads {
		found := probelint.Check(probelint.In{Workload: w.Workload, Services: input.services, Measured: l.measured})
		out = append(out, lintResult{Source: w.Source, Kind: w.Kind, Namespace: w.Namespace, Name: w.Name,
			Duplicates: w.duplicates, Findings: append([]probelint.Finding{}, found...)})
	}
	if l.Output == "json" {
		err = cli.WriteJSON(l.Out, out)
	} else {
		err = writeLint(l.Out, out)
	}
	if err != nil {
		return err
	}
	return l.exitError(out)
}

func (l *lintCommand) validateFlags(args []string) error {
	switch {
	case len(l.files) > 0 && (len(args) > 0 || l.all):
		return cli.UsageError(fmt.Errorf("files (-f) and Pods of the API server cannot be judged in one call"))
	case len(l.files) == 0 && len(args) == 0 && !l.all:
		return cli.UsageError(
			fmt.Errorf("nothing to judge: name files with -f, a Pod as pod/NAME, or --all; see \"gantry lint --help\""))

	case len(args) > 0 && l.all:
		return cli.UsageError(fmt.Errorf("--all and Pods by name exclude each other"))
	case l.failOn != "none" && probelint.Severity(l.failOn).Rank() == 0:
		return cli.UsageError(fmt.Errorf("--fail-on %q: must be error, warning, info or none", l.failOn))
	case l.Output != "" && l.Output != "text" && l.Output != "json":
		return cli.UsageError(fmt.Errorf("output %q: must be text or json", l.Output))
	case l.measured.Start < 0 || l.measured.P99 < 0:
		return cli.UsageError(fmt.Errorf("--startup-time and --p99 must not be negative"))
	}
	return nil
}

// exitError is the error that makes the exit code 1.
func (l *lintCommand) exitError(all []lintResult) error {
	if l.failOn == "none" {
		return nil
	}
	n := 0
	for _, o := range all {
		for _, f := range o.Findings {
			if f.Severity.Rank() >= probelint.Severity(l.failOn).Rank() {
				n++
			}
		}
	}
	if n == 0 {
		return nil
	}
	return cli.WithFix(fmt.Errorf("%s as bad as --fail-on %s or worse", plural(n, "finding"), l.failOn),
		"correct them, or call with --fail-on none to only look")
}

func writeLint(w io.Writer, all []lintResult) error {
	counts := map[probelint.Severity]int{}
	var b strings.Builder
	for _, o := range all {
		if len(o.Findings) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s: %s", o.Source,
			strings.TrimSuffix(o.Kind+" "+strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), " "))
		if o.Duplicates > 0 {
			fmt.Fprintf(&b, " (and %s like it)", plural(o.Duplicates, "Pod"))
		}
		b.WriteByte('\n')
		for _, f := range o.Findings {
			counts[f.Severity]++
			fmt.Fprintf(&b, "  %-8s %s  %s", f.Severity, f.Rule, f.Field)
			if f.Container != "" {
				fmt.Fprintf(&b, "  (container %s)", f.Container)
			}
			fmt.Fprintf(&b, "\n      %s\n      → %s\n", f.Message, f.Fix)
		}
	}
	fmt.Fprintf(&b, "%s judged: %s, %s, %d info\n", plural(len(all), "object"),
		plural(counts[probelint.Error], "error"), plural(counts[probelint.Warning], "warning"), counts[probelint.Info])
	_, err := io.WriteString(w, b.String())
	return err
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
