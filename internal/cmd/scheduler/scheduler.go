package scheduler

import (
	"context"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/app"
	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/options"
	"github.com/gantry-project/gantry/internal/scheduler/server"
)

// New is the scheduler alone.
func New(io cli.IO) *cobra.Command {
	r, flags, record := &cli.Role{}, &server.Flags{}, &options.DecisionRecorder{}
	run := func(ctx context.Context, client *rest.Config) error {
		o, err := flags.Options()
		if err != nil {
			return cli.WithFix(err, cli.ConfigFix)
		}
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(app.SchedulerShare)
		}
		sink, stop, err := app.NewRemoteJournal(ctx, client, app.JournalSource{Component: "scheduler"})
		if err != nil {
			return err
		}
		defer stop()
		o.KubeConfig, o.Journal = client, sink
		if o.Record, err = record.OpenFile(); err != nil {
			return err
		}
		defer record.Stop()
		if err = server.Run(ctx, o); server.IsPortTaken(err) {
			return cli.WithFix(err, "choose another port with --secure-port, or 0 for none")
		}
		return err
	}
	r.Without = func(ctx context.Context) error {
		client, err := app.ClientOfConfig(flags.File)
		if err != nil {
			return err
		}
		return run(ctx, client)
	}
	c := r.Command(&cobra.Command{
		Use: "scheduler", Short: "Run the scheduler alone, against any Kubernetes API server",
		Example: "  gantry scheduler --kubeconfig /etc/kubernetes/scheduler.conf --config scheduler.yaml",
	}, run)
	flags.Add(c.Flags())
	record.Flags(c.Flags(), "record-decisions")
	c.AddCommand(newReplay(io))
	return c
}
