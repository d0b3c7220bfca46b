package probes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/explain/gather"
	"github.com/gantry-project/gantry/internal/kubelet/probe"
	"github.com/gantry-project/gantry/internal/probelint"
	"github.com/gantry-project/gantry/internal/probeplan"
)

// command is one call of gantry probes.
type command struct {
	cli.Inspector
	ask     probeplan.Ask
	restart string
	port    string
	from    string
	changed func(flag string) bool
}

func New(io cli.IO) *cobra.Command {
	p := &command{Inspector: cli.Inspector{Out: io.Out}}
	c := &cobra.Command{
		Use:   "probes --p99 TIME | --from pod/NAME",
		Short: "Compute readiness, liveness and startup probes from how fast a container answers and starts",
		Long: "probes prints a container's probes, on an endpoint for readiness and one for liveness and startup, " +
			"with the " +
			"arithmetic: timeouts over the P99, a hung container given up\nwithin the window of --restart, out of " +
			"the " +
			"traffic before that, and false alarms that cost no more than a tenth of what the objective allows. The " +
			"rules " +
			"of\n`gantry lint` check them. What the choices of probes do at a slow start, a hang and overload is " +
			"said, too.\n" +
			"With --from the figures are those of a Pod that runs: its kubelet's histogram of answers, its starts " +
			"in the journal; flags go before them.",
		Example: "  gantry probes --p99 200ms --start-time 60s\n  gantry probes --p95 80ms --p99 1.2s --objective " +
			"99.95 --restart 45s..2m -o yaml\n  gantry probes --from pod/web -n shop\n  gantry probes --p99 50ms " +
			"--restart high --port http --readiness-path /ready --liveness-path /live",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			p.changed = c.Flags().Changed
			return p.run(c.Context())
		},
	}
	p.Flags(c, "text (default), yaml, json, svg")
	f := c.Flags()
	f.DurationVar(&p.ask.P95, "p95", 0, "95th percentile of the time a healthy endpoint takes to answer")
	f.DurationVar(&p.ask.P99, "p99", 0, "99th percentile of it")
	f.DurationVar(&p.ask.Start, "start-time", 0, "how long the container takes until it can serve, at its slowest")
	f.Float64Var(&p.ask.Objective, "objective", 99.9, "share of the time in which the service shall answer, in percent")
	f.StringVar(&p.restart, "restart", "medium",
		"when a hung container shall be given up: high (15s..45s), medium (30s..90s), low (90s..5m), or two times")
	f.StringVar(&p.port, "port", "8080", "port that is asked, a number or a name")
	f.StringVar(&p.ask.ReadyPath, "readiness-path", "/readyz", "path that says whether it can serve")
	f.StringVar(
		&p.ask.LivePath,
		"liveness-path",
		"/livez",
		"path that says whether the process works, for liveness and startup",
	)
	f.StringVar(&p.from, "from", "", "take measured figures of this Pod: pod/NAME")
	f.StringVarP(&p.ask.Container, "container", "c", "", "the container (default: the Pod's first)")
	return c
}

func (p *command) run(ctx context.Context) error {
	if !slices.Contains([]string{"", "text", "yaml", "json", "svg"}, p.Output) {
		return cli.UsageError(fmt.Errorf("output %q: must be text, yaml, json or svg", p.Output))
	}
	var err error
	if p.ask.Restart, err = probeplan.ReadWindow(p.restart); err != nil {
		return cli.UsageError(fmt.Errorf("--restart %w", err))
	}
	var seen probeplan.Measured
	if p.from != "" {
		if seen, err = p.measure(ctx); err != nil {
			return err
		}
	} else if p.ask.P99 == 0 {
		return cli.UsageError(errors.New("how fast does it answer: name --p99, or a Pod that runs with --from"))
	}
	if p.ask.Container == "" {
		p.ask.Container = "app"
	}
	if p.ask.Port = intstr.Parse(p.port); p.port == "" || p.ask.Port.Type == intstr.Int &&
		(p.ask.Port.IntVal < 1 || p.ask.Port.IntVal > 65535) {
		return cli.UsageError(fmt.Errorf("--port %q: must be a number from 1 to 65535 or a port's name", p.port))
	}
	for flag, path := range map[string]string{"--readiness-path": p.ask.ReadyPath, "--liveness-path": p.ask.LivePath} {
		if !strings.HasPrefix(path, "/") {
			return cli.UsageError(fmt.Errorf("%s %q: must begin with /", flag, path))
		}
	}
	plan, err := probeplan.Make(p.ask)
	if err != nil {
		return cli.UsageError(err)
	}
	return p.write(plan, seen)
}

// answer is what -o json prints.
type answer struct {
	Probes       map[string]*v1.Probe    `json:"probes"` // by field: readinessProbe, …
	Arithmetic   []string                `json:"arithmetic"`
	Hang         []probeplan.Step        `json:"hang"`
	Combinations []probeplan.Combination `json:"combinations"`
	Findings     []probelint.Finding     `json:"findings"`
	Measured     *probeplan.Measured     `json:"measured,omitempty"`
}

func (p *command) write(plan probeplan.Plan, seen probeplan.Measured) error {
	plan.Lines = append(seen.Lines(), plan.Lines...)
	switch p.Output {
	case "json":
		out := answer{Probes: map[string]*v1.Probe{}, Arithmetic: plan.Lines, Hang: plan.Hang(),
			Combinations: plan.Combinations(), Findings: append([]probelint.Finding{}, plan.Findings...)}
		for kind, one := range plan.Probes() {
			out.Probes[string(kind)+"Probe"] = one
		}
		if p.from != "" {
			out.Measured = &seen
		}
		return cli.WriteJSON(p.Out, out)
	case "svg":
		return plan.WriteSVG(p.Out)
	case "yaml":
		text, err := plan.YAML()
		if err != nil {
			return err
		}
		for _, l := range plan.Lines {
			fmt.Fprintf(p.Out, "# %s\n", l)
		}
		_, err = fmt.Fprint(p.Out, text)
		return err
	}
	return plan.WriteText(p.Out)
}

// measure reads what was seen of a Pod; flags that were given go before it.
func (p *command) measure(ctx context.Context) (probeplan.Measured, error) {
	var m probeplan.Measured
	name, err := cli.PodName(p.from)
	if err != nil {
		return m, err
	}
	client, err := p.NewClient()
	if err != nil {
		return m, err
	}
	pod, err := gather.FindPod(ctx, client, p.Namespace, name)
	if err != nil {
		return m, err
	}
	if pod == nil {
		return m, cli.WithFix(fmt.Errorf("there is no pod %s in namespace %s", name, p.Namespace),
			"check name and namespace (-n)")
	}
	c := container(pod, p.ask.Container)
	if c == nil {
		return m, cli.UsageError(fmt.Errorf("--container %q: pod %s has none of that name", p.ask.Container, name))
	}
	p.ask.Container, m.Container = c.Name, c.Name
	p.endpoints(c)
	if err := readAnswers(ctx, client, pod, &m); err != nil {
		return m, err
	}
	entries, err := gather.ReadJournal(ctx, client, p.Namespace, name)
	if err != nil && !errors.Is(err, gather.ErrNoJournal) && !apierrors.IsForbidden(err) {
		return m, err
	}
	m.ReadStarts(entries)
	for flag, f := range map[string]struct{ into, seen *time.Duration }{"p95": {&p.ask.P95, &m.P95},
		"p99": {&p.ask.P99, &m.P99}, "start-time": {&p.ask.Start, &m.Start}} {
		if !p.changed(flag) {
			*f.into = *f.seen
		}
	}
	p.ask.P95 = min(p.ask.P95, p.ask.P99)
	if p.ask.P99 == 0 {
		return m, cli.WithFix(fmt.Errorf("no answer of container %s of pod %s to a probe was measured", c.Name, name),
			"give it a readiness probe and ask again, or name --p99")
	}
	return m, nil
}

// readAnswers asks the Pod's kubelet.
func readAnswers(ctx context.Context, client kubernetes.Interface, pod *v1.Pod, m *probeplan.Measured) error {
	if pod.Spec.NodeName == "" {
		return nil
	}
	raw, err := client.CoreV1().RESTClient().Get().Resource("nodes").Name(pod.Spec.NodeName).SubResource("proxy").
		Suffix("metrics", "probes").DoRaw(ctx)
	if err != nil {
		return cli.WithFix(fmt.Errorf("answers to probes on node %s: %w", pod.Spec.NodeName, err),
			"be somebody who may get nodes/proxy, or name --p99 and --start-time")
	}
	return m.ReadAnswers(pod.Name, pod.Namespace, bytes.NewReader(raw))
}

func container(pod *v1.Pod, name string) *v1.Container {
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; name == "" || c.Name == name {
			return c
		}
	}
	return nil
}

// endpoints takes port and paths over from the container's own probes, unless flags say otherwise.
func (p *command) endpoints(c *v1.Container) {
	take := func(k probe.Kind, flag string, path *string) {
		own := probe.ProbeOf(c, k)
		if own == nil || own.HTTPGet == nil {
			return
		}
		if !p.changed("port") {
			p.port = own.HTTPGet.Port.String()
		}
		if !p.changed(flag) && own.HTTPGet.Path != "" {
			*path = own.HTTPGet.Path
		}
	}
	take(probe.Readiness, "readiness-path", &p.ask.ReadyPath)
	take(probe.Liveness, "liveness-path", &p.ask.LivePath)
	if p.ask.ReadyPath == p.ask.LivePath && !p.changed("liveness-path") {
		p.ask.LivePath = "/livez" // they must not be one endpoint
	}
}
