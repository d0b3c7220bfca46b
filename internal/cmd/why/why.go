package why

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/explain/gather"
)

func New(streams cli.IO) *cobra.Command {
	e := &cli.Inspector{Out: streams.Out}
	all, watch, ask := false, false, question{}
	c := &cobra.Command{
		Use: "why [KIND/NAME… | PHRASE]",
		Short: "Say why a Pod is pending, restarting, not ready, terminating or gone, and what to do; of other " +
			"objects, what holds them up",
		Long: "Without arguments why says what is wrong in the namespace, or with -A in the whole cluster: worst " +
			"first, and what several things suffer from once.\n" +
			"why names the one thing a Pod waits for or was ended by, with numbers, since when, what happens next by " +
			"itself, and what a person can do.\n" +
			"Of a deployment, replicaset, statefulset, daemonset, job or cronjob it names the first blocker of its " +
			"Pods or of their making; it knows the other kinds too, from service, node and pvc to pdb, hpa, quota, " +
			"namespace and csr. Of a name that a container could not resolve it says why.\n" +
			"A phrase of kubectl describe, in quotes, is taken apart without a cluster: who said it, by which rule, " +
			"what to do.\n" +
			"Of a name that is not there it says what may have been meant. The exit code is 0 for an answer, 1 when " +
			"an object is not there or cannot be read, 2 for a wrong call.",
		Example: "  gantry why\n  gantry why -A -o json\n  gantry why pod/web\n  gantry why deployment/web -n prod " +
			"-o json\n  gantry why node/node-1\n  gantry why '0/12 nodes are available: 12 Insufficient cpu'",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return overview(c.Context(), e, all)
			}
			if watch {
				return watchUntilWell(c.Context(), e, args, ask)
			}
			return why(c.Context(), e, args, ask)
		},
	}
	c.Flags().BoolVarP(&all, "all-namespaces", "A", false, "without arguments: look at the whole cluster")
	c.Flags().BoolVarP(&watch, "watch", "w", false, "answer again when it changes, until all are well")
	c.Flags().DurationVar(&ask.since, "since", 0, "look at events and at the journal no further back than this (10m)")
	c.Flags().BoolVar(&ask.pressure, "pressure", false, "of a node or a running Pod: say how far it is from being "+
		"evicted, also where that is far (default: only where it is near)")
	e.Flags(c, "text (default), json, yaml; svg of one Pod: the scheduler's board")
	return c
}

// question is what the flags say of how to answer.
type question struct {
	since    time.Duration // how far to look back; 0: as far as there is
	pressure bool          // tell of evictions also where they are far
}

// answer answers about one object, at the time that it returns.
func (q question) answer(ctx context.Context, e *cli.Inspector, arg string) (explain.Answer, time.Time, error) {
	a, now, err := gather.Answer(ctx, e, arg, q.since)
	if err == nil {
		err = gather.AddNodePressure(ctx, e, gather.PressureQuestion{Subject: arg, Asked: q.pressure}, &a)
	}
	return a, now, err
}

// answer is what can be printed for a person and as data.
type answer interface {
	WriteText(w io.Writer, now time.Time) error
}

// write prints an answer in the form that was asked for.
func write(e *cli.Inspector, a answer, now time.Time) error {
	switch e.Output {
	case "json":
		return cli.WriteJSON(e.Out, a)
	case "yaml":
		raw, err := yaml.Marshal(a)
		if err == nil {
			_, err = fmt.Fprintf(e.Out, "---\n%s", raw)
		}
		return err
	}
	return a.WriteText(e.Out, now)
}

// checkOutput refuses forms that there are not.
func checkOutput(e *cli.Inspector) error {
	if !slices.Contains([]string{"", "text", "json", "yaml"}, e.Output) {
		return cli.UsageError(fmt.Errorf("output %q: must be text, json or yaml, or svg of one Pod", e.Output))
	}
	return nil
}

// overview says what is wrong in the namespace, or everywhere.
func overview(ctx context.Context, e *cli.Inspector, all bool) error {
	if err := checkOutput(e); err != nil {
		return err
	}
	client, err := e.NewClient()
	if err != nil {
		return err
	}
	namespace := e.Namespace
	if all {
		namespace = ""
	}
	o, err := gather.Overview(ctx, client, namespace)
	if err != nil {
		return err
	}
	return write(e, o, time.Now())
}

// why answers about each object in turn; one that cannot be asked about does not keep the others
// back. As JSON, several answers are a stream of objects.
func why(ctx context.Context, e *cli.Inspector, args []string, ask question) error {
	if e.Output == "svg" && len(args) == 1 {
		a, _, err := ask.answer(ctx, e, args[0])
		if err != nil {
			return err
		}
		return errors.Join(writeBoard(ctx, e, args[0], a), notThere(a))
	}
	if err := checkOutput(e); err != nil {
		return err
	}
	var errs []error
	for i, arg := range args {
		if i > 0 && e.Output != "json" && e.Output != "yaml" {
			if _, err := fmt.Fprintln(e.Out); err != nil {
				return err
			}
		}
		if isKubectlMessage(arg) {
			errs = append(errs, explainMessage(e, arg))
			continue
		}
		a, now, err := ask.answer(ctx, e, arg)
		if err == nil {
			err = errors.Join(write(e, a, now), notThere(a))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// notThere is the error of an answer about an object that is not there.
func notThere(a explain.Answer) error {
	if a.Code != explain.NoSuchObject {
		return nil
	}
	return fmt.Errorf("there is no %s", a.Subject)
}

// watchPause is how long a watch waits before it asks again.
const watchPause = 2 * time.Second

// watchUntilWell answers, and again whenever an answer changes, until all objects are well or ctx
// ends.
func watchUntilWell(ctx context.Context, e *cli.Inspector, args []string, ask question) error {
	if err := checkOutput(e); err != nil {
		return err
	}
	tick := time.NewTicker(watchPause)
	defer tick.Stop()
	last := make([]string, len(args))
	for {
		well := true
		for i, arg := range args {
			a, now, err := ask.answer(ctx, e, arg)
			if err != nil {
				return err
			}
			well = well && a.Well()
			if key := a.Key(); key != last[i] {
				last[i] = key
				if err := errors.Join(write(e, a, now), notThere(a)); err != nil {
					return err
				}
			}
		}
		if well {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
