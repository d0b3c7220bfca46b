package app

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"

	"github.com/gantry-project/gantry/internal/scheduler/replay"
	"github.com/gantry-project/gantry/internal/scheduler/server"
)

// decisionRecorder is where the scheduler's decisions are written down.
type decisionRecorder struct {
	flag  string // with dashes
	path  string
	limit string

	mu        sync.Mutex
	file      *os.File // nil: closed, or the limit was reached
	bytesLeft int64    // bytes
}

// flags adds the flag name, and name-limit.
func (r *decisionRecorder) flags(f *pflag.FlagSet, name string) {
	r.flag = "--" + name
	f.StringVar(&r.path, name, "",
		"file to append every decision of the scheduler to, with all it was made from, for \"gantry scheduler "+
			"replay\"; holds nodes and Pods whole, and costs time on each cycle")
	f.StringVar(&r.limit, name+"-limit", "64Mi", "size of that file at which recording stops")
}

// openFile opens the file; it gives nil when none is wanted. What is in the file stays and counts.
func (r *decisionRecorder) openFile() (func(*replay.Decision), error) {
	if r.path == "" {
		return nil, nil
	}
	limit, err := resource.ParseQuantity(r.limit)
	if err != nil || limit.Value() <= 0 {
		return nil, usageError(fmt.Errorf("%s-limit %q: must be a size above zero, like 64Mi", r.flag, r.limit))
	}
	if r.file, err = os.OpenFile(r.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return nil, withFix(fmt.Errorf("%s: %w", r.flag, err),
			"name a file in a directory that exists and can be written to")
	}
	size, err := r.file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.flag, errors.Join(err, r.close()))
	}
	r.bytesLeft = limit.Value() - size
	last := make([]byte, 1)
	// cut off by a crash: the damage stays in its line
	if _, err := r.file.ReadAt(last, size-1); size > 0 && err == nil && last[0] != '\n' {
		r.write([]byte("\n"))
	}
	return r.record, nil
}

// record writes a decision down, or stops for good when it does not fit or cannot be written.
func (r *decisionRecorder) record(d *replay.Decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return
	}
	line, err := d.Line()
	if err != nil {
		klog.Background().Error(err, "A decision is not recorded")
		return
	}
	r.write(line)
}

func (r *decisionRecorder) write(line []byte) {
	stop := func(why string, err error) {
		klog.Background().Info("Recording of decisions stopped: "+why, "file", r.path, "limit", r.limit,
			"err", errors.Join(err, r.close()))
	}
	if r.bytesLeft -= int64(len(line)); r.bytesLeft < 0 {
		stop("the next one would pass the limit ("+r.flag+"-limit)", nil)
		return
	}
	if _, err := r.file.Write(line); err != nil {
		stop("writing failed", err)
	}
}

// close is what open needs to be undone; it may be called twice.
func (r *decisionRecorder) close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}

func (r *decisionRecorder) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.close(); err != nil {
		klog.Background().Error(err, "Closing the recorded decisions", "file", r.path)
	}
}

// replayCommand is the replay subcommand.
type replayCommand struct {
	io              IO
	other           string // path of another configuration
	differencesOnly bool
}

func newReplay(io IO) *cobra.Command {
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
				return usageError(
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
			return withFix(usageError(err), configFix)
		}
	}
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return usageError(fmt.Errorf("recorded decisions: %w", err))
		}
		defer func() { _ = f.Close() }() // only read
		in = f
	}
	sum := replayCounts{}
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return usageError(fmt.Errorf("recorded decisions: line %d: %w", n, err))
		}
		end := err != nil
		if len(bytes.TrimSpace(line)) > 0 {
			err := r.line(ctx, line, other, &sum)
			if bad := (replay.OtherConfigError{}); errors.As(err, &bad) {
				return withFix(usageError(fmt.Errorf("--config %s: %w", r.other, bad)), configFix)
			}
			if err != nil {
				return withFix(usageError(fmt.Errorf("%s: line %d: %w", path, n, err)),
					"take the line out, or record anew with gantry scheduler --record-decisions")
			}
		}
		if end || ctx.Err() != nil {
			break
		}
	}
	if sum.all == 0 {
		return usageError(fmt.Errorf("%s: no decision is recorded there", path))
	}
	fmt.Fprintf(r.io.Out, "%d decisions: %d same, %d different, %d not replayed\n", sum.all,
		sum.all-sum.different-sum.skipped, sum.different, sum.skipped)
	if sum.different > 0 {
		return fmt.Errorf("%d of %d decisions are different", sum.different, sum.all)
	}
	return ctx.Err()
}

// replayCounts counts verdicts.
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
