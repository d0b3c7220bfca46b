package app

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

	"github.com/gantry-project/gantry/internal/doctor"
	"github.com/gantry-project/gantry/internal/linux/proc"
)

// doctorTimeout is how long the doctor waits for one answer.
const doctorTimeout = 5 * time.Second

// doctorCommand looks at this machine and at a cluster.
type doctorCommand struct {
	inspector
	instance     instanceOptions
	exec         string
	container    string
	problemsOnly bool
}

func newDoctor(io IO) *cobra.Command {
	d := &doctorCommand{inspector: inspector{out: io.Out}}
	c := &cobra.Command{
		Use: "doctor",
		Short: "Look over this machine, its container runtime and the nodes of the cluster: what is wrong and what " +
			"to " +
			"do",
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
		d.kubeconfig = d.kubeconfigPath(c.Flags().Changed("data-dir"))
		return d.run(c.Context())
	}
	d.flags(c, "text (default), json")
	f := c.Flags()
	d.instance.dataFlag(f)
	f.StringVar(&d.instance.runtime, "container-runtime-endpoint", "",
		"CRI socket of this machine's runtime (default: that of the instance in DATA-DIR)")
	f.StringVar(&d.exec, "exec", "", "a running Pod of this machine, pod/NAME: try each hop of kubectl exec into it")
	f.StringVarP(&d.container, "container", "c", "", "its container (default: the first)")
	f.BoolVarP(&d.problemsOnly, "quiet", "q", false, "leave out what is well")
	return c
}

// kubeconfigPath is --kubeconfig, else that of the instance whose directory was named; empty leaves
// the choice to what every command takes.
func (d *doctorCommand) kubeconfigPath(named bool) string {
	if own := kubeconfigIn(d.instance.dataDir); d.kubeconfig == "" && named && readable(own) {
		return own
	}
	return d.kubeconfig
}

func checkHelp() string {
	var b strings.Builder
	for _, c := range doctor.Checks() {
		fmt.Fprintf(&b, "  %-16s%s\n", c.Name, c.About)
	}
	return b.String()
}

func (d *doctorCommand) run(ctx context.Context) error {
	if d.output != "" && d.output != "text" && d.output != "json" {
		return usageError(fmt.Errorf("-o %s: must be text or json", d.output))
	}
	if err := d.instance.complete(); err != nil {
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
	if d.output == "json" {
		enc := json.NewEncoder(d.out)
		enc.SetIndent("", "  ")
		err = enc.Encode(found)
	} else {
		err = doctor.Write(d.out, found)
	}
	if err == nil && doctor.Worst(found) == doctor.Problem {
		err = errors.New("the doctor found problems")
	}
	return err
}

// gatherFacts gathers all facts there are from here.
func (d *doctorCommand) gatherFacts(ctx context.Context) (doctor.Facts, error) {
	f := doctor.Facts{Now: time.Now()}
	s := &doctorGatherer{instance: &d.instance, boot: proc.BootID()}
	f.Machine = s.machine()
	f.Runtime = s.runtime(ctx)
	f.Certificates = s.certificates()
	cfg, namespace, err := restConfig(d.kubeconfig)
	if err != nil {
		if d.kubeconfig != "" || d.exec != "" {
			return f, err
		}
		return f, nil // no cluster was named, and there is none here
	}
	if d.namespace == "" {
		d.namespace = namespace
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Timeout = -1, doctorTimeout
	f.API = s.api(ctx, cfg)
	f.Scheduler = s.scheduler(ctx, cfg)
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return f, err
	}
	if f.API.Err == nil {
		f.Orphans = s.orphans(ctx, client)
		f.Nodes = s.nodes(ctx, client)
		f.NodeRoutes = routeConflicts(ctx, client)
		f.Grants = s.grants(ctx, client)
	}
	if d.exec != "" {
		name, err := podName(d.exec)
		if err != nil {
			return f, err
		}
		f.ExecHops = s.execHops(ctx, client, execTarget{d.namespace, name, d.container})
	}
	return f, nil
}
