package why

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/explain/gather"
)

func New(io cli.IO) *cobra.Command {
	e := &cli.Inspector{Out: io.Out}
	c := &cobra.Command{
		Use: "why KIND/NAME… | PHRASE",
		Short: "Say why a Pod is pending, restarting, not ready, terminating or gone, and what to do; of other " +
			"objects, what holds them up",
		Long: "why names the one thing a Pod waits for or was ended by, with numbers, since when, what happens next " +
			"by itself, and what a person can do.\n" +
			"Of a deployment, replicaset, statefulset, daemonset, job or cronjob it names the first blocker of its " +
			"Pods or of their making; it also knows service, node and pvc. Of a name that a container could not " +
			"resolve it says why.\n" +
			"A phrase of kubectl describe, in quotes, is taken apart without a cluster: who said it, by which rule, " +
			"what to do.",
		Example: "  gantry why pod/web\n  gantry why deployment/web -n prod -o json\n  gantry why node/node-1\n  " +
			"gantry why '0/12 nodes are available: 12 Insufficient cpu'",
		Args: cli.OneOrMore("an object or several: pod/NAME, deployment/NAME, …"),
		RunE: func(c *cobra.Command, args []string) error { return why(c.Context(), e, args) },
	}
	e.Flags(c, "text (default), json")
	return c
}

// why answers about each object in turn; one that cannot be asked about does not keep the others
// back. As JSON, several answers are a stream of objects.
func why(ctx context.Context, e *cli.Inspector, args []string) error {
	if e.Output != "" && e.Output != "text" && e.Output != "json" {
		return cli.UsageError(fmt.Errorf("output %q: must be text or json", e.Output))
	}
	var errs []error
	for i, arg := range args {
		if i > 0 && e.Output != "json" {
			if _, err := fmt.Fprintln(e.Out); err != nil {
				return err
			}
		}
		if isKubectlMessage(arg) {
			errs = append(errs, explainMessage(e, arg))
			continue
		}
		a, now, err := gather.Answer(ctx, e, arg)
		switch {
		case err != nil:
		case e.Output == "json":
			err = cli.WriteJSON(e.Out, a)
		default:
			err = a.WriteText(e.Out, now)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
