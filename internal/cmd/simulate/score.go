package simulate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/simulate/forecast"
	"github.com/gantry-project/gantry/internal/simulate/scenario"
	"github.com/gantry-project/gantry/internal/simulate/source"
	"github.com/gantry-project/gantry/internal/simulate/usage"
)

func newScore(streams cli.IO) *cobra.Command {
	e, dir := &cli.Inspector{Out: streams.Out}, ""
	c := &cobra.Command{
		Use:   "score",
		Short: "Say how right the kept forecasts were: who left, where what came went, in which order, how fast",
		Long: "score compares each kept forecast with the Pods that are in the cluster now. A forecast counts as " +
			"come true when, within its horizon, as many Pods of its workloads were made as it said; one of a load " +
			"when the Pods take about as much as it said.",
		Example: "  gantry simulate score\n  gantry simulate score -o json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return score(c.Context(), e, c.ErrOrStderr(), cmp.Or(dir, defaultStore()))
		},
	}
	e.Flags(c, "text (default), json")
	c.Flags().StringVar(&dir, "store", "", storeHelp)
	return c
}

func score(ctx context.Context, e *cli.Inspector, errOut io.Writer, dir string) error {
	if !slices.Contains([]string{"", "text", "json"}, e.Output) {
		return cli.UsageError(fmt.Errorf("output %q: must be text or json", e.Output))
	}
	kept, notes, err := forecast.ReadAll(dir)
	if err != nil {
		return err
	}
	for _, note := range notes {
		if _, err := fmt.Fprintln(errOut, "note: "+note); err != nil {
			return err
		}
	}
	if len(kept) == 0 {
		return cli.WithFix(fmt.Errorf("%s keeps no forecast", dir),
			"make one, for example with `gantry simulate drain`")
	}
	client, err := e.NewClient()
	if err != nil {
		return err
	}
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	uid := ""
	if system, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{}); err == nil {
		uid = string(system.UID)
	} // who may not read it has all forecasts compared
	kept = ofCluster(kept, uid)
	var figures usage.Figures
	if slices.ContainsFunc(kept, func(f forecast.Stored) bool { return len(f.Loads) > 0 }) {
		if figures, err = source.Usage(ctx, client); err != nil {
			if _, err := fmt.Fprintf(errOut, "note: nothing tells what Pods take: %v\n", err); err != nil {
				return err
			}
		}
	}
	return writeScores(e, kept, seen(pods.Items, figures))
}

// ofCluster leaves out forecasts made from files and those of other clusters than uid names. Where
// either is not known, the forecast stays.
func ofCluster(kept []forecast.Stored, uid string) []forecast.Stored {
	return slices.DeleteFunc(kept, func(f forecast.Stored) bool {
		return f.Source != liveSource || uid != "" && f.Cluster != "" && f.Cluster != uid
	})
}

// seen are Pods with what figures tell of them.
func seen(pods []corev1.Pod, figures usage.Figures) []forecast.Seen {
	var out []forecast.Seen
	for i := range pods {
		p := &pods[i]
		s := forecast.Seen{Namespace: p.Namespace, Name: p.Name, Owner: scenario.OwnerOf(p), Node: p.Spec.NodeName,
			Created: p.CreationTimestamp.Time, Leaving: p.DeletionTimestamp != nil}
		if pod.IsReady(p) {
			s.Ready = pod.ReadyCondition(p).LastTransitionTime.Time
		}
		of, measured := figures[pod.Key(p)]
		s.Measured = measured
		for _, a := range of {
			s.CPU, s.Memory = s.CPU+a.CPU, s.Memory+a.Memory
		}
		out = append(out, s)
	}
	return out
}

// fileScore is the score of the forecast that a file keeps.
type fileScore struct {
	File string `json:"file"`
	forecast.Score
}

func writeScores(e *cli.Inspector, kept []forecast.Stored, there []forecast.Seen) error {
	var all []fileScore
	now := time.Now()
	for _, f := range kept {
		s := forecast.Compare(f.Forecast, there, now)
		if err := f.Keep(s); err != nil {
			return fmt.Errorf("keeping a score: %w", err)
		}
		all = append(all, fileScore{f.File, s})
	}
	if e.Output == "json" {
		return cli.WriteJSON(e.Out, all)
	}
	placed, coming, done := 0, 0, 0
	for i, s := range all {
		if _, err := io.WriteString(e.Out, kept[i].At.Local().Format(time.DateTime)+" "+s.Line()+"\n"); err != nil {
			return err
		}
		if s.Happened {
			placed, coming, done = placed+s.Placed, coming+s.Coming, done+1
		}
	}
	_, err := fmt.Fprintf(e.Out, "%d of %d came about; of %d Pods %d went where it was foretold\n", done, len(all),
		coming, placed)
	return err
}
