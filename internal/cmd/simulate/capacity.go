package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/simulate/capacity"
	"github.com/gantry-project/gantry/internal/simulate/fork"
	"github.com/gantry-project/gantry/internal/simulate/source"
)

func newCapacity(streams cli.IO) *cobra.Command {
	s := &simulation{Inspector: cli.Inspector{Out: streams.Out}}
	file, limit := "", 0
	c := &cobra.Command{
		Use:   "capacity -f POD",
		Short: "Say how many further Pods fit, what runs out first, and which nodes take most of them",
		Long: "capacity places Pods like the one of the manifest (a Pod, or the template of a workload) one after " +
			"the other with the scheduler's own decisions until none fits.",
		Example: "  gantry simulate capacity -f pod.yaml\n  gantry simulate capacity -f deploy.yaml --from " +
			"cluster.json -o json",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if file == "" {
				return cli.UsageError(errors.New("gantry simulate capacity wants a Pod with -f"))
			}
			if s.Output == "svg" {
				return cli.UsageError(errors.New(`output "svg": capacity has text and json`))
			}
			if limit < 0 {
				return cli.UsageError(fmt.Errorf("--limit %d: must not be negative", limit))
			}
			return s.capacity(c.Context(), file, limit)
		},
	}
	s.flags(c)
	c.Flags().StringVarP(&file, "filename", "f", "", "manifest of the Pod, - for standard input (required)")
	c.Flags().IntVar(&limit, "limit", 0, "stop after so many; 0: when none fits")
	return c
}

func (s *simulation) capacity(ctx context.Context, file string, limit int) error {
	given, _, err := source.FromFiles([]string{file}, s.in)
	if err != nil {
		return err
	}
	pod := podIn(given.Objects)
	if pod == nil {
		return cli.UsageError(fmt.Errorf("%s: there is no Pod and no Pod template in it", file))
	}
	in, note, err := s.input(ctx)
	if err != nil {
		return err
	}
	defer quiet()()
	if pod.Namespace == "" {
		pod.Namespace = s.Namespace
	}
	if pod, err = fork.Admitted(ctx, in.Objects, pod); err != nil {
		return err
	}
	fork.CompleteNodes(in.Objects, in.Start)
	a, err := capacity.Count(ctx, capacity.In{Objects: in.Objects, Pod: pod, Limit: limit})
	if err != nil {
		return err
	}
	if s.Output == "json" {
		return cli.WriteJSON(s.Out, a)
	}
	return writeCapacity(s.Out, a, note)
}

// podIn is the first Pod, or the Pod of the first template.
func podIn(objects []runtime.Object) *corev1.Pod {
	for _, o := range objects {
		if p, ok := o.(*corev1.Pod); ok {
			return p
		}
		if t := source.TemplateOf(o); t != nil {
			return &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
		}
	}
	return nil
}

func writeCapacity(w io.Writer, a capacity.Answer, note string) error {
	var b strings.Builder
	more := ""
	if a.Limited {
		more = " and maybe more"
	}
	fmt.Fprintf(&b, "%d%s fit on %d nodes\n", a.Fits, more, a.Nodes)
	for i, c := range a.RunsOut {
		if i == 0 {
			b.WriteString("what runs out, by the number of nodes:\n")
		}
		fmt.Fprintf(&b, "  %s on %d\n", c.What, c.Nodes)
	}
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\nALLOCATABLE\tNODES\tFIT\tPER NODE")
	for _, s := range a.Shapes {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.1f\n", s.Allocatable, s.Nodes, s.Fits, s.PerNode)
	}
	_ = t.Flush() // a strings.Builder takes all
	if note != "" {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
