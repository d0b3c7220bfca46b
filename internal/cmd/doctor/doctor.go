package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/doctor"
	"github.com/gantry-project/gantry/internal/doctor/gather"
	"github.com/gantry-project/gantry/internal/linux/proc"
	"github.com/gantry-project/gantry/internal/options"
)

// doctorCommand looks at this machine and at a cluster.
type doctorCommand struct {
	cli.Inspector
	instance     options.Instance
	exec         string
	container    string
	problemsOnly bool
}

func New(io cli.IO) *cobra.Command {
	d := &doctorCommand{Inspector: cli.Inspector{Out: io.Out}}
	c := &cobra.Command{
		Use: "doctor",
		Short: "Check this machine, its container runtime and the nodes of the cluster: what is wrong and what " +
			"to do",
		Long: "doctor asks the machine, the container runtime, the API server and every kubelet, and judges what it " +
			"is told. What cannot be looked at from here is left out:\n" +
			"without root the runtime, without a kubeconfig the cluster.\n\nChecks:\n" + checkHelp() +
			"\nWith --exec it tries each hop of kubectl exec into a Pod of this machine by itself and names the one " +
			"that hangs.\n" +
			"The exit code is 1 when there is a problem, 0 otherwise.",
		Example: "  sudo gantry doctor\n  gantry doctor --kubeconfig admin.conf -o json\n  sudo gantry doctor --exec " +
			"pod/web -n shop",
		Args: cobra.NoArgs,
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		d.Kubeconfig = d.kubeconfigPath(c.Flags().Changed("data-dir"))
		return d.run(c.Context())
	}
	d.Flags(c, "text (default), json")
	f := c.Flags()
	d.instance.DataFlag(f)
	f.StringVar(&d.instance.Runtime, "container-runtime-endpoint", "",
		"CRI socket of this machine's runtime (default: that of the instance in DATA-DIR)")
	f.StringVar(&d.exec, "exec", "", "a running Pod of this machine, pod/NAME: try each hop of kubectl exec into it")
	f.StringVarP(&d.container, "container", "c", "", "its container (default: the first)")
	f.BoolVarP(&d.problemsOnly, "quiet", "q", false, "leave out what is well")
	return c
}

// kubeconfigPath is --kubeconfig, else that of the instance whose directory was named; empty leaves
// the choice to what every command takes.
func (d *doctorCommand) kubeconfigPath(named bool) string {
	if own := cli.KubeconfigIn(d.instance.DataDir); d.Kubeconfig == "" && named && cli.Readable(own) {
		return own
	}
	return d.Kubeconfig
}

func checkHelp() string {
	var b strings.Builder
	for _, c := range doctor.Checks() {
		fmt.Fprintf(&b, "  %-16s%s\n", c.Name, c.About)
	}
	return b.String()
}

func (d *doctorCommand) run(ctx context.Context) error {
	if d.Output != "" && d.Output != "text" && d.Output != "json" {
		return cli.UsageError(fmt.Errorf("-o %s: must be text or json", d.Output))
	}
	if err := d.instance.Complete(); err != nil {
		return err
	}
	facts, err := d.gatherFacts(ctx)
	if err != nil {
		return err
	}
	found := doctor.Examine(facts)
	if d.problemsOnly {
		oldest := []doctor.Finding{}
		for _, f := range found {
			if f.Level > doctor.OK {
				oldest = append(oldest, f)
			}
		}
		found = oldest
	}
	if d.Output == "json" {
		enc := json.NewEncoder(d.Out)
		enc.SetIndent("", "  ")
		err = enc.Encode(found)
	} else {
		err = doctor.Write(d.Out, found)
	}
	if err == nil && doctor.Worst(found) == doctor.Problem {
		err = errors.New("the doctor found problems")
	}
	return err
}

// gatherFacts gathers all facts there are from here.
func (d *doctorCommand) gatherFacts(ctx context.Context) (doctor.Facts, error) {
	f := doctor.Facts{Now: time.Now()}
	s := &gather.Gatherer{Instance: &d.instance, Boot: proc.BootID()}
	f.Machine = s.Machine()
	f.Runtime = s.Runtime(ctx)
	f.Certificates = s.Certificates()
	cfg, namespace, err := cli.RestConfig(d.Kubeconfig)
	if err != nil {
		if d.Kubeconfig != "" || d.exec != "" {
			return f, err
		}
		return f, nil // no cluster was named, and there is none here
	}
	if d.Namespace == "" {
		d.Namespace = namespace
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Timeout = -1, gather.Timeout
	f.API = s.API(ctx, cfg)
	f.Scheduler = s.Scheduler(ctx, cfg)
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return f, err
	}
	if f.API.Err == nil {
		f.Orphans = s.Orphans(ctx, client)
		f.Tokens = s.Tokens(ctx, client, f.Now)
		f.Nodes = s.Nodes(ctx, client)
		f.NodeRoutes = gather.RouteConflicts(ctx, client)
		f.Grants = s.Grants(ctx, client)
		f.Storage = s.Storage(ctx, client, f.Nodes)
	}
	if d.exec != "" {
		name, err := cli.PodName(d.exec)
		if err != nil {
			return f, err
		}
		f.ExecHops = s.ExecHops(ctx, client, gather.ExecTarget{Namespace: d.Namespace, Pod: name,
			Container: d.container})
	}
	return f, nil
}
