package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/cmd/simulate/eviction"
	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/explain/gather"
	"github.com/gantry-project/gantry/internal/simulate/forecast"
	"github.com/gantry-project/gantry/internal/simulate/scenario"
	"github.com/gantry-project/gantry/internal/simulate/source"
)

// simulation is what all verbs of gantry simulate share.
type simulation struct {
	cli.Inspector
	in      io.Reader
	from    []string
	fork    bool
	seeds   int
	horizon time.Duration
	scripts string // file of behavior.Scripts; empty: none
	times   timeFlags
	store   string // directory of kept forecasts; empty: the user's
	keep    bool   // the forecast is kept
}

// New makes the command.
func New(streams cli.IO) *cobra.Command {
	c := &cobra.Command{
		Use:   "simulate",
		Short: "Say what a change will bring, by trying it on a copy of the cluster in virtual time",
		Long: "simulate copies a cluster into memory and lets it go on in virtual time, with the real scheduler, " +
			"controllers and rules of the API, and with containers that only take time. On the copy it makes the " +
			"change and tells what came: which Pods go where and when, which budgets hold things up, what stays " +
			"pending and what would help. The cluster itself is only read.\n" +
			"The copy comes from the API server (by kubeconfig, within your rights), or with --from from a snapshot " +
			"or from manifests; of manifests the cluster is first let come to rest.\n" +
			"How long containers take to start and to become ready is measured on the Pods that run, and assumed " +
			"where none do; --start-after, --ready-after, --stop-after and --run-for say it instead.",
		Example: "  gantry simulate drain node/node-1\n  gantry simulate rollout deployment/web --max-surge 50% " +
			"--ready-after 20s -o svg > rollout.svg\n  gantry simulate snapshot > cluster.json\n" +
			"  gantry simulate drain node/node-1 --from cluster.json",
	}
	c.AddCommand(newDrain(streams), newRollout(streams), newScale(streams), newApply(streams), newDelete(streams),
		newSet(streams), newLose(streams), newLoad(streams), newCapacity(streams), newScore(streams),
		newSnapshot(streams), eviction.NewEvictionCommand(streams))
	return c
}

// flags adds the flags that all verbs have.
func (s *simulation) flags(c *cobra.Command) {
	s.Inspector.Flags(c, "text (default), json, svg")
	f := c.Flags()
	f.StringArrayVar(&s.from, "from", nil,
		"snapshot, manifest or directory of them to copy instead of the cluster, - for standard input; may be given "+
			"again")
	f.BoolVar(&s.fork, "fork", false, "copy the cluster of the kubeconfig (the default without --from)")
	f.IntVar(&s.seeds, "seeds", 0, "how many runs to make, each with other times (default: 20 when times are spread, "+
		"otherwise 1)")
	f.DurationVar(&s.horizon, "horizon", scenario.DefaultHorizon, "how far to look ahead")
	f.StringVar(&s.scripts, "times", "", "file that says how containers of workloads behave, in YAML: deployment/web: "+
		"{start: 2s, ready: {p50: 5s, p99: 20s}, stop: 1s, run: 30s, exitCode: 1, ends: true}")
	f.Var(&s.times.start, "start-after", "how long containers take from the binding until they run: a duration, or "+
		"p50 or p99 of what was measured (default: as measured, spread)")
	f.Var(&s.times.ready, "ready-after", "how long they take from then until they are ready, likewise")
	f.Var(&s.times.stop, "stop-after", "how long they take to end after TERM, likewise")
	f.Var(&s.times.run, "run-for", "how long containers of Jobs run, likewise")
	f.StringVar(&s.store, "store", "", storeHelp)
	f.BoolVar(&s.keep, "keep", true,
		"keep the forecast of a cluster for `gantry simulate score`; those of --from are not kept")
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		s.in = c.InOrStdin()
		if err := s.check(c); err != nil {
			return err
		}
		return run(c, args)
	}
}

// check refuses flags that cannot be.
func (s *simulation) check(c *cobra.Command) error {
	switch {
	case !slices.Contains([]string{"", "text", "json", "svg"}, s.Output):
		return cli.UsageError(fmt.Errorf("output %q: must be text, json or svg", s.Output))
	case s.fork && len(s.from) > 0:
		return cli.UsageError(errors.New("--fork and --from exclude each other: one cluster is copied"))
	case s.seeds < 0:
		return cli.UsageError(fmt.Errorf("--seeds %d: must not be negative", s.seeds))
	case s.horizon <= 0:
		return cli.UsageError(fmt.Errorf("--horizon %s: must be more than nothing", s.horizon))
	}
	return nil
}

// input reads the cluster that is to be copied.
func (s *simulation) input(ctx context.Context) (scenario.Input, string, error) {
	in := scenario.Input{Seeds: s.seeds, Horizon: s.horizon, Start: time.Now().Truncate(time.Second)}
	var copied source.Copied
	if len(s.from) > 0 {
		if s.Namespace == "" {
			s.Namespace = corev1.NamespaceDefault
		}
		var at time.Time
		var err error
		if copied, at, err = source.FromFiles(ctx, s.from, s.in); err != nil {
			return in, "", cli.WithFix(err,
				"name a file of `gantry simulate snapshot`, or manifests with nodes, with --from")
		}
		if !at.IsZero() {
			in.Start = at.Truncate(time.Second)
		}
		in.Source, in.Usage = fmt.Sprint(s.from), copied.Usage
	} else {
		client, err := s.NewClient()
		if err != nil {
			return in, "", err
		}
		if copied, err = source.FromCluster(ctx, client); err != nil {
			return in, "", cli.WithFix(err, "ask for the right, or take a snapshot with somebody's who has it: "+
				"`gantry simulate snapshot`, then --from")
		}
		in.Source = liveSource
		// without figures autoscalers do not decide, and load takes requests and says so
		in.Usage, _ = source.Usage(ctx, client)
	}
	if !hasNode(copied.Objects) {
		return in, "", cli.WithFix(errors.New("there is no node in what was read, so no Pod could run"),
			"add Nodes with status.capacity to the manifests")
	}
	in.Objects = copied.Objects
	var err error
	if in.Model, err = s.model(copied); err != nil {
		return in, "", err
	}
	if in.Seeds == 0 {
		in.Seeds = seedsFor(in.Model)
	}
	return in, copied.Note(), nil
}

// liveSource is the source of what was read from an API server.
const liveSource = "the cluster"

// clusterUID tells clusters apart: it is that of the namespace kube-system, empty if it was not
// read.
func clusterUID(objects []runtime.Object) string {
	for _, o := range objects {
		if n, ok := o.(*corev1.Namespace); ok && n.Name == metav1.NamespaceSystem {
			return string(n.UID)
		}
	}
	return ""
}

func hasNode(objects []runtime.Object) bool {
	return slices.ContainsFunc(objects, func(o runtime.Object) bool { _, ok := o.(*corev1.Node); return ok })
}

// run tries a change and prints what it brings.
func (s *simulation) run(ctx context.Context, change func() (scenario.Change, error)) error {
	in, note, err := s.input(ctx)
	if err != nil {
		return err
	}
	quiet()
	if _, err := change(); err != nil {
		return cli.UsageError(err)
	}
	f, err := scenario.Simulate(ctx, in, func() scenario.Change { c, _ := change(); return c }, s.explain)
	if err != nil {
		return err
	}
	if note != "" {
		f.Notes = append(f.Notes, note)
	}
	if s.keep && len(s.from) == 0 { // what is foretold of files cannot be compared with a cluster
		f.Cluster = clusterUID(in.Objects)
		if err := forecast.Store(cmp.Or(s.store, defaultStore()), f); err != nil {
			f.Notes = append(f.Notes, "the forecast is not kept: "+err.Error())
		}
	}
	return s.write(f)
}

// quiet keeps the log of the copy's parts from the person's terminal, for the rest of the process:
// parts that end with the copy still log when the command has its answer.
func quiet() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
}

func (s *simulation) write(f *forecast.Forecast) error {
	switch s.Output {
	case "json":
		return cli.WriteJSON(s.Out, f)
	case "svg":
		return f.WriteSVG(s.Out)
	}
	return f.WriteText(s.Out)
}

// mostExplained is how many Pods that do not become ready are explained.
const mostExplained = 20

// ofUnread tells whether a remedy is about what a copy has not: ConfigMaps and Secrets are never
// read.
func ofUnread(remedy string) bool {
	return strings.Contains(remedy, "create the ConfigMap ") || strings.Contains(remedy, "create the Secret ")
}

// explain asks `gantry why` about the Pods that did not become ready, in the copy.
func (s *simulation) explain(ctx context.Context, r *scenario.Run) error {
	unready, err := r.Unready(ctx)
	if err != nil {
		return err
	}
	for i := range unready[:min(len(unready), mostExplained)] {
		p := &unready[i]
		a, err := gather.AnswerWith(ctx, r.Cluster.Client(),
			gather.Question{Namespace: p.Namespace, About: "pod/" + p.Name, Now: r.Cluster.Now()})
		if err != nil {
			return fmt.Errorf("explaining pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		causes := r.Cluster.ClaimsOf(ctx, p)
		if a.Cause != "" && len(causes) > 0 {
			causes = slices.Insert(causes, 0, strings.TrimSuffix(a.Cause, "."))
		} else if a.Cause != "" {
			causes = []string{a.Cause}
		}
		pending := forecast.Pending{Pod: p.Namespace + "/" + p.Name, Cause: strings.Join(causes, "; ")}
		for _, fix := range a.Fixes {
			if ofUnread(fix.Description) {
				continue
			}
			if strings.Contains(fix.Description, corev1.TaintNodeUnreachable) {
				fix = explain.Fix{Description: "bring back a node that does not answer, or add one like it"}
			}
			pending.Fixes = append(pending.Fixes, strings.Join(append([]string{fix.Description}, fix.Run...), "; "))
		}
		for _, node := range r.Cluster.Silent(ctx, p) {
			pending.Fixes = append(pending.Fixes, fmt.Sprintf("once node %[1]s is surely off, say so: its Pods are "+
				"deleted and its volumes detached; kubectl taint node %[1]s "+
				"node.kubernetes.io/out-of-service=nodeshutdown:NoExecute", node))
		}
		r.Forecast.Pending = append(r.Forecast.Pending, pending)
	}
	return nil
}
