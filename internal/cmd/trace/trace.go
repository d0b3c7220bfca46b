package trace

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/explain/gather"
	"github.com/gantry-project/gantry/internal/trace"
	"github.com/gantry-project/gantry/internal/trace/otlp"
)

func New(io cli.IO) *cobra.Command {
	e := &cli.Inspector{Out: io.Out}
	all, revisions, endpoint := false, false, ""
	c := &cobra.Command{
		Use:   "trace pod/NAME | KIND/NAME --revisions | packet --from … --to … | apply -f FILE",
		Short: "Show a Pod's life: every step from the write to its end, with times",
		Long: "trace prints what the journal holds about a Pod: writes, queue, filters and scores, binding, every " +
			"call to the runtime with its duration, probes, stop.\n" +
			"It works after the Pod is gone and after Gantry was restarted, as far as the journal's bound reaches.\n" +
			"With --revisions it tells who wrote what of any object at each revision. packet tells what would become " +
			"of a packet. Its other subcommands are kubectl's that\n" +
			"write; they tell how the server took each write.",
		Example: "  gantry trace pod/web\n  gantry trace pod/web -o tree\n  gantry trace pod/web -o json\n  gantry " +
			"trace pod/web -o svg >web.svg\n  gantry trace pod/web --otlp 127.0.0.1:4317\n" +
			"  gantry trace pod/web --revisions\n  gantry trace deployment/web --revisions\n  gantry trace apply -f " +
			"pod.yaml --dry-run=server",
		Args: cli.ExactlyOne("a Pod: pod/NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			if revisions {
				return writeRevisions(c.Context(), e, args[0])
			}
			podTraces, err := gather.PodTraces(c.Context(), e, args[0])
			if err != nil {
				return err
			}
			if !all {
				podTraces = podTraces[len(podTraces)-1:]
			}
			for _, l := range podTraces {
				if endpoint != "" {
					if err := otlp.Send(c.Context(), endpoint, l); err != nil {
						return cli.WithFix(err, "check that a collector takes OTLP over gRPC at %s", endpoint)
					}
				}
				if err := writePodTrace(e, l); err != nil {
					return err
				}
			}
			return nil
		},
	}
	e.Flags(c, "timeline (default), tree, json, svg")
	c.Flags().BoolVar(&all, "all", false, "every Pod that had this name, not only the last")
	c.Flags().BoolVar(&revisions, "revisions", false,
		"who wrote what at each revision that is still known, of any kind")
	c.AddCommand(newPacket(io))
	c.AddCommand(tracedWrites(io)...)
	c.Flags().StringVar(&endpoint, "otlp", "",
		"also send the spans to this OpenTelemetry collector (host:port, OTLP over gRPC)")
	return c
}

// writeRevisions tells who wrote what of one object.
func writeRevisions(ctx context.Context, e *cli.Inspector, arg string) error {
	client, err := e.NewClient()
	if err != nil {
		return err
	}
	cfg, _, err := cli.RestConfig(e.Kubeconfig)
	if err != nil {
		return err
	}
	h, err := gather.ReadHistory(ctx, cfg, client, gather.NamedObject{Namespace: e.Namespace, Arg: arg})
	if err != nil {
		return err
	}
	switch e.Output {
	case "", "timeline":
		return h.WriteText(e.Out)
	case "json":
		return cli.WriteJSON(e.Out, h)
	}
	return cli.UsageError(fmt.Errorf("output %q: must be timeline or json with --revisions", e.Output))
}

func writePodTrace(e *cli.Inspector, l trace.PodTrace) error {
	switch e.Output {
	case "", "timeline":
		return l.WriteTimeline(e.Out)
	case "tree":
		return l.WriteTree(e.Out)
	case "json":
		return cli.WriteJSON(e.Out, l)
	case "svg":
		return l.WriteSVG(e.Out)
	}
	return cli.UsageError(fmt.Errorf("output %q: must be timeline, tree, json or svg", e.Output))
}
