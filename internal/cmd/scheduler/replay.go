package scheduler

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/scheduler/replay"
	"github.com/gantry-project/gantry/internal/scheduler/server"
)

// replayCommand is the replay subcommand.
type replayCommand struct {
	io              cli.IO
	other           string // path of another configuration
	differencesOnly bool
}

func newReplay(io cli.IO) *cobra.Command {
	r := &replayCommand{io: io}
	c := &cobra.Command{
		Use:   "replay FILE",
		Short: "Make recorded decisions of the scheduler again, with the same or another configuration",
		Long: "replay reads what \"gantry scheduler --record-decisions FILE\" or \"gantry up --scheduler-record " +
			"FILE\" wrote (- reads standard input) and makes each decision again with the same plugins, nodes, Pods, " +
			"objects,\n" +
			"sample and pick among equals. It prints a line for each: same, or what differs from the record: the " +
			"winner, the first refusal, the first score. No API server is asked.\n\n" +
			"With --config it says which Pods would have gone elsewhere with another KubeSchedulerConfiguration, and " +
			"by which scores; of nodes that this finds equal the\n" +
			"recorded one is taken. Each decision is judged in the cluster as it was: what the Pods that went " +
			"elsewhere would have changed for later ones is not followed.\n\n" +
			"Decisions in which extenders had a say, or that Coscheduling ended, are passed over: what these know is " +
			"not recorded. Out-of-tree plugins are not known here.\n\n" +
			"The exit code is 0 when all are the same, 1 when one is different, 2 for a wrong call or a file or " +
			"configuration that cannot be read.",
		Example: "  gantry scheduler --kubeconfig scheduler.conf --record-decisions decisions.jsonl\n" +
			"  gantry scheduler replay decisions.jsonl\n" +
			"  gantry scheduler replay decisions.jsonl --config candidate.yaml --quiet\n\n" +
			"  default/web-7d8: same: n2\n" +
			"  default/web-9c1: different: n2, with the other configuration n4 (recorded: n2 612, n4 598; other: n4 " +
			"844, n2 791)",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError(
					fmt.Errorf("want one file of recorded decisions, got %d arguments; see \"gantry scheduler replay "+
						"--help\"", len(args)))

			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return r.run(c.Context(), args[0], c.InOrStdin()) },
	}
	c.Flags().StringVar(&r.other, "config", "",
		"KubeSchedulerConfiguration file to compare with the recorded configuration")
	c.Flags().BoolVarP(&r.differencesOnly, "quiet", "q", false,
		"print only decisions that are different or passed over")
	return c
}

func (r *replayCommand) run(ctx context.Context, path string, in io.Reader) error {
	var other *schedulerconfig.KubeSchedulerConfiguration
	if r.other != "" {
		var err error
		if other, err = server.ReadConfig(r.other); err != nil {
			return cli.WithFix(cli.UsageError(err), cli.ConfigFix)
		}
	}
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return cli.UsageError(fmt.Errorf("recorded decisions: %w", err))
		}
		defer func() { _ = f.Close() }() // only read
		in = f
	}
	sum := replayCounts{}
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return cli.UsageError(fmt.Errorf("recorded decisions: line %d: %w", n, err))
		}
		end := err != nil
		if len(bytes.TrimSpace(line)) > 0 {
			err := r.line(ctx, line, other, &sum)
			if bad := (replay.OtherConfigError{}); errors.As(err, &bad) {
				return cli.WithFix(cli.UsageError(fmt.Errorf("--config %s: %w", r.other, bad)), cli.ConfigFix)
			}
			if err != nil {
				return cli.WithFix(cli.UsageError(fmt.Errorf("%s: line %d: %w", path, n, err)),
					"take the line out, or record anew with gantry scheduler --record-decisions")
			}
		}
		if end || ctx.Err() != nil {
			break
		}
	}
	if sum.all == 0 {
		return cli.UsageError(fmt.Errorf("%s: no decision is recorded there", path))
	}
	fmt.Fprintf(r.io.Out, "%d decisions: %d same, %d different, %d not replayed\n", sum.all,
		sum.all-sum.different-sum.skipped, sum.different, sum.skipped)
	if sum.different > 0 {
		return fmt.Errorf("%d of %d decisions are different", sum.different, sum.all)
	}
	return ctx.Err()
}

// replayCounts counts outcomes.
type replayCounts struct{ all, different, skipped int }

func (r *replayCommand) line(ctx context.Context, line []byte, other *schedulerconfig.KubeSchedulerConfiguration,
	sum *replayCounts) error {
	d, err := replay.Read(line)
	if err != nil {
		return err
	}
	c, err := replay.Open(d)
	if err != nil {
		return err
	}
	var v replay.Comparison
	if other == nil {
		v, err = c.Replay(ctx)
	} else {
		v, err = c.CompareConfig(ctx, other)
	}
	if err != nil {
		return err
	}
	sum.all++
	switch {
	case v.Skipped != "":
		sum.skipped++
	case !v.Equal():
		sum.different++
	case r.differencesOnly:
		return nil
	}
	_, err = fmt.Fprintln(r.io.Out, v.Line())
	return err
}
