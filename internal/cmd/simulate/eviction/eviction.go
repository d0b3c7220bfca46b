package eviction

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/explain/gather"
	kubeconfig "github.com/gantry-project/gantry/internal/kubelet/config"
	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/kubelet/eviction/manager"
	"github.com/gantry-project/gantry/internal/simulate/nodepressure"
)

// evictionCommand is the subcommand.
type evictionCommand struct {
	cli.Inspector
	in       io.Reader
	file     string
	node     string
	sets     []string
	preset   string
	config   string
	ranking  string
	duration time.Duration
}

// NewEvictionCommand is `simulate eviction`.
func NewEvictionCommand(streams cli.IO) *cobra.Command {
	e := &evictionCommand{Inspector: cli.Inspector{Out: streams.Out}}
	c := &cobra.Command{
		Use:   "eviction",
		Short: "Say which Pods a node evicts, in which order and why",
		Long: "eviction walks the kubelet's own decision step by step: signals, thresholds, conditions, what is " +
			"reclaimed, the order of the Pods with the reason of each place, and the victim;\n" +
			"over time, with soft thresholds' grace periods and minimum reclaim. The node comes from a file (-f; its " +
			"fields are in docs/user/node-pressure.md), or from a kubelet (--node):\n" +
			"then it also says who would go next, at how many bytes less, and what would save it. --set changes a " +
			"figure before, and may be given again:\n" +
			"  pod/NAME.memory=900Mi (or layer, logs, processes, volumes.NAME, priority, request.memory, " +
			"growth.memory a second)\n  node.memory.available=150Mi\n  evictionHard.memory.available=200Mi (or " +
			"evictionSoft, evictionSoftGracePeriod, evictionMinimumReclaim)",
		Example: "  gantry simulate eviction -f mix.yaml\n  gantry simulate eviction -f mix.yaml --preset seed-001 " +
			"--set pod/web.memory=900Mi\n  gantry simulate eviction -f mix.yaml -o svg > evictions.svg\n  " +
			"gantry simulate eviction --node node-1 --set node.memory.available=50Mi",
		Args: cobra.NoArgs,
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		e.in = c.InOrStdin()
		return e.run(c.Context())
	}
	f := c.Flags()
	f.StringVarP(&e.file, "filename", "f", "", "file with a node and its Pods, - for standard input")
	f.StringVar(&e.node, "node", "", "start from the figures of this node's kubelet")
	f.StringArrayVar(&e.sets, "set", nil, "change a figure or a threshold: KEY=VALUE, see above")
	f.StringVar(&e.preset, "preset", "", "thresholds and ranking that ship with Gantry: "+
		strings.Join(kubeconfig.Presets(), ", "))
	f.StringVar(&e.config, "config", "", "KubeletConfiguration with the thresholds (default: the kubelet's defaults, "+
		"with --node those in force)")
	f.StringVar(&e.ranking, "ranking", "", "order of the Pods: "+strings.Join(eviction.Rankings(), ", ")+
		" (default: the preset's, else upstream's)")
	f.DurationVar(&e.duration, "duration", 10*time.Minute, "how long the node is watched")
	f.StringVar(&e.Kubeconfig, "kubeconfig", "",
		"kubeconfig of the API server (default: $KUBECONFIG, then what `gantry up` wrote)")
	f.StringVarP(&e.Output, "output", "o", "", "form of the answer: text (default), json, svg")
	return c
}

// answer is what is printed as JSON.
type answer struct {
	*nodepressure.Result
	Victims  []nodepressure.Victim          `json:"victims"`
	Forecast *nodepressure.EvictionForecast `json:"foresight"`
}

func (e *evictionCommand) run(ctx context.Context) error {
	if err := e.validate(); err != nil {
		return err
	}
	n, err := e.read(ctx)
	if err != nil {
		return err
	}
	settings, figures := splitSets(e.sets)
	if err := e.configure(&n, settings); err != nil {
		return err
	}
	for _, change := range figures {
		if err := n.Set(change); err != nil {
			return cli.UsageError(fmt.Errorf("--set %w", err))
		}
	}
	return e.write(nodepressure.Run(n, nodepressure.Times{Period: manager.Period, Duration: e.duration}),
		nodepressure.Forecast(n, len(n.Pods)))
}

func (e *evictionCommand) validate() error {
	switch {
	case (e.file == "") == (e.node == ""):
		return cli.UsageError(errors.New("name either a file with a node and its Pods (-f) or a node (--node)"))
	case !slices.Contains([]string{"", "text", "json", "svg"}, e.Output):
		return cli.UsageError(fmt.Errorf("output %q: must be text, json or svg", e.Output))
	case e.duration < 0 || e.duration > 24*time.Hour:
		return cli.UsageError(fmt.Errorf("--duration %s: must be between 0 and 24h", e.duration))
	}
	return nil
}

// read has the node from the file or the kubelet.
func (e *evictionCommand) read(ctx context.Context) (nodepressure.Node, error) {
	if e.file != "" {
		return e.readFile()
	}
	client, err := e.NewClient()
	if err != nil {
		return nodepressure.Node{}, err
	}
	return gather.NodePressure(ctx, client, e.node, true)
}

func (e *evictionCommand) write(r *nodepressure.Result, f *nodepressure.EvictionForecast) error {
	switch e.Output {
	case "json":
		return cli.WriteJSON(e.Out, answer{r, r.Victims(), f})
	case "svg":
		return r.WriteSVG(e.Out)
	}
	if err := r.WriteText(e.Out); err != nil {
		return err
	}
	if len(r.Victims()) > 0 {
		return nil
	}
	if _, err := io.WriteString(e.Out, "\nHow far it is, and who would go first:\n"); err != nil {
		return err
	}
	return f.WriteText(e.Out)
}
