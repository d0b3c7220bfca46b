package status

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/options"
	"github.com/gantry-project/gantry/internal/status"
	"github.com/gantry-project/gantry/internal/status/gather"
)

func New(io cli.IO) *cobra.Command {
	e, pods := &cli.Inspector{Out: io.Out}, false
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the components of the cluster: connections, state, age, version and load",
		Long: "status shows the API server with its store, scheduler and controllers, and of each node kubelet, " +
			"container " +
			"runtime, Service proxy, and the name server: state, age, version and load,\nand what the state is " +
			"concluded " +
			"from: a lease, a health port, or whether its work is done. It works on any Kubernetes, with your " +
			"rights; what may not be read is unknown.\nThe exit code is 0 when no part is down, else 1.",
		Example: "  gantry status\n  gantry status -o json\n  gantry status -o svg >cluster.svg\n  " +
			"gantry status --pods -o svg >pods.svg",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"", "text", "json", "svg"}, e.Output) {
				return cli.UsageError(fmt.Errorf("output %q: must be text, json or svg", e.Output))
			}
			if pods {
				return drawPods(c.Context(), e)
			}
			cfg, _, err := cli.RestConfig(e.Kubeconfig)
			if err != nil {
				return err
			}
			client, err := e.NewClient()
			if err != nil {
				return err
			}
			m := status.Draw(gather.Read(c.Context(), gather.Asked{Config: cfg, Client: client,
				Scheduler: schedulerAddress(e.Kubeconfig)}))
			if err := write(e, m); err != nil {
				return err
			}
			return verdict(m)
		},
	}
	f := c.Flags()
	f.StringVar(&e.Kubeconfig, "kubeconfig", "",
		"kubeconfig of the API server (default: $KUBECONFIG, then what `gantry up` wrote)")
	f.StringVarP(&e.Output, "output", "o", "", "form of the answer: text (default), json, svg")
	f.BoolVar(&pods, "pods", false, "with -o svg: draw the nodes with their Pods instead, as the dashboard's Now")
	return c
}

func write(e *cli.Inspector, m status.Map) error {
	switch e.Output {
	case "json":
		return cli.WriteJSON(e.Out, m)
	case "svg":
		return m.WriteSVG(e.Out)
	}
	return m.WriteText(e.Out)
}

// verdict is the error that makes the exit code 1.
func verdict(m status.Map) error {
	for _, p := range m.Parts {
		if p.Health == status.Down {
			return cli.WithFix(fmt.Errorf("%s is down: %s", p.Name(), p.Because),
				"gantry doctor looks closer; gantry why node/NAME asks about a node")
		}
	}
	return nil
}

// schedulerAddress is where the scheduler of the instance that wrote the kubeconfig serves health;
// empty when no instance of this machine wrote it.
func schedulerAddress(kubeconfig string) string {
	for _, file := range []string{kubeconfig, os.Getenv(clientcmd.RecommendedConfigPathEnvVar),
		cli.DefaultKubeconfig()} {
		if file != "" {
			return options.SchedulerAddress(filepath.Dir(file), "")
		}
	}
	return ""
}
