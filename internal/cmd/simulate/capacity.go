package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/simulate/capacity"
	"github.com/gantry-project/gantry/internal/simulate/fork"
	"github.com/gantry-project/gantry/internal/simulate/scenario"
	"github.com/gantry-project/gantry/internal/simulate/source"
)

func newCapacity(streams cli.IO) *cobra.Command {
	s := &simulation{Inspector: cli.Inspector{Out: streams.Out}}
	file, limit := "", 0
	c := &cobra.Command{
		Use:   "capacity -f POD",
		Short: "Say how many further Pods fit, what runs out first, and which shape of node is the best for them",
		Long: "capacity places Pods like the one of the manifest (a Pod, or the template of a workload) one after " +
			"the other with the scheduler's own decisions until none fits.",
		Example: "  gantry simulate capacity -f pod.yaml\n  gantry simulate capacity -f deploy.yaml --from " +
			"cluster.json -o json",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if file == "" {
				return cli.UsageError(errors.New("gantry simulate capacity wants a Pod with -f"))
			}
			if limit < 0 {
				return cli.UsageError(fmt.Errorf("--limit %d: must not be negative", limit))
			}
			return s.capacity(c.Context(), file, limit)
		},
	}
	s.flags(c)
	c.Flags().StringVarP(&file, "filename", "f", "", "manifest of the Pod, - for standard input (required)")
	c.Flags().Bool("pod", true, "count Pods, of which -f has one: nothing else can be counted")
	c.Flags().IntVar(&limit, "limit", 0, "stop after so many; 0: when none fits")
	return c
}

func (s *simulation) capacity(ctx context.Context, file string, limit int) error {
	given, err := source.Given([]string{file}, s.in)
	if err != nil {
		return err
	}
	pod, claims := podIn(given.Objects)
	if pod == nil {
		return cli.UsageError(fmt.Errorf("%s: there is no Pod and no Pod template in it", file))
	}
	in, note, err := s.input(ctx)
	if err != nil {
		return err
	}
	quiet()
	if pod.Namespace == "" {
		pod.Namespace = s.Namespace
	}
	objects, err := scenario.AtRest(ctx, in)
	if err != nil {
		return err
	}
	if pod, err = fork.Admitted(ctx, objects, pod); err != nil {
		return err
	}
	a, err := capacity.Count(ctx, capacity.In{Objects: objects, Pod: pod, Limit: limit})
	if err != nil {
		return err
	}
	for _, n := range []string{note, claims} {
		if n != "" {
			a.Notes = append(a.Notes, n)
		}
	}
	switch s.Output {
	case "json":
		return cli.WriteJSON(s.Out, a)
	case "svg":
		return a.WriteSVG(s.Out)
	}
	return writeCapacity(s.Out, a)
}

// podIn is the first Pod, or the Pod of the first template, in the workload's namespace. A
// StatefulSet's claims become empty volumes; the note says so.
func podIn(objects []runtime.Object) (p *corev1.Pod, note string) {
	for _, o := range objects {
		if p, ok := o.(*corev1.Pod); ok {
			return p, ""
		}
		t := source.TemplateOf(o)
		if t == nil {
			continue
		}
		p := &corev1.Pod{ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: *t.Spec.DeepCopy()}
		if m, err := meta.Accessor(o); err == nil && p.Namespace == "" {
			p.Namespace = m.GetNamespace()
		}
		if set, ok := o.(*appsv1.StatefulSet); ok && len(set.Spec.VolumeClaimTemplates) > 0 {
			note = withEmptyVolumes(&p.Spec, set.Spec.VolumeClaimTemplates)
		}
		return p, note
	}
	return nil, ""
}

// withEmptyVolumes gives a Pod an empty volume in the place of each claim and says that claims are
// not looked at.
func withEmptyVolumes(spec *corev1.PodSpec, claims []corev1.PersistentVolumeClaim) string {
	var names []string
	for _, claim := range claims {
		names = append(names, claim.Name)
		spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == claim.Name })
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: claim.Name,
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	return "spec.volumeClaimTemplates are not looked at, so volumes may bind Pods to fewer nodes: " +
		strings.Join(names, ", ")
}

func writeCapacity(w io.Writer, a capacity.Answer) error {
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
	if best := a.Best(); best != nil && len(a.Shapes) > 1 {
		fmt.Fprintf(&b, "best shape of node: %s, with %.1f Pods per core\n", best.Allocatable, best.PerCore)
	}
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\nALLOCATABLE\tNODES\tFIT\tPER NODE\tPER CORE")
	for _, s := range a.Shapes {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.1f\t%.1f\n", s.Allocatable, s.Nodes, s.Fits, s.PerNode, s.PerCore)
	}
	_ = t.Flush() // a strings.Builder takes all
	for _, n := range a.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
