package size

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/journal"
	kubeconfig "github.com/gantry-project/gantry/internal/kubelet/config"
	"github.com/gantry-project/gantry/internal/sizing"
)

// sizeCommand is the subcommand.
type sizeCommand struct {
	cli.Inspector
	in         io.Reader
	usage      []string
	metricsAPI bool
	period     time.Duration
	every      time.Duration
	node       string
	cpu        string
	memory     string
	disk       string
	config     string
	policy     sizing.Policy
}

func New(streams cli.IO) *cobra.Command {
	s := &sizeCommand{Inspector: cli.Inspector{Out: streams.Out}, policy: sizing.DefaultPolicy()}
	c := &cobra.Command{
		Use:   "size",
		Short: "Calculate requests from measured usage, and what a node of a size should reserve",
		Long: "size reads usage series and says what each container should request: the 95th percentile of what it " +
			"took, not the average; its limits, and the ratio of both.\n" +
			"Series are files (--usage: CSV with container, cpu and memory; answers of Prometheus' API as JSON; " +
			"scrapes of a kubelet's /metrics/resource as text), or are taken from the\n" +
			"metrics API for a while (--metrics-api). Of a node (--node, or --cpu and --memory) it calculates " +
			"kubeReserved, systemReserved and eviction thresholds by its size, and prints a KubeletConfiguration;\n" +
			"with --config it judges the one there is: what keeps too little, what too much.",
		Example: "  gantry size --usage usage.csv\n  gantry size --usage cpu=rate.json --usage " +
			"memory=working-set.json -o " +
			"json\n  gantry size --metrics-api --for 10m -n shop\n  gantry size --cpu 4 --memory 16Gi --disk 100Gi " +
			"-o yaml > kubelet.yaml\n  gantry size --node node-1 --config kubelet.yaml",
		Args: cobra.NoArgs,
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		s.in = c.InOrStdin()
		return s.run(c.Context())
	}
	s.Flags(c, "text (default), json, svg; yaml: the KubeletConfiguration alone")
	f := c.Flags()
	f.StringArrayVar(&s.usage, "usage", nil,
		"file with usage, - for standard input; as cpu=FILE or memory=FILE where series have no names; may be given "+
			"again")
	f.BoolVar(&s.metricsAPI, "metrics-api", false, "take usage from the metrics API, of all namespaces or that of -n")
	f.DurationVar(&s.period, "for", 5*time.Minute, "how long usage is taken from the metrics API")
	f.DurationVar(&s.every, "every", 15*time.Second, "how often")
	f.StringVar(&s.node, "node", "", "size of the node: that of this one of the API server")
	f.StringVar(&s.cpu, "cpu", "", "size of the node: its CPUs, such as 4")
	f.StringVar(&s.memory, "memory", "", "size of the node: its memory, such as 16Gi")
	f.StringVar(&s.disk, "disk", "", "size of the node: the file system of the kubelet's directory, such as 100Gi")
	f.StringVar(&s.config, "config", "", "KubeletConfiguration to judge against the node's size")
	f.Float64Var(&s.policy.MemoryHeadroom, "memory-headroom", s.policy.MemoryHeadroom,
		"memory limit as a multiple of the most that was taken")
	f.Float64Var(&s.policy.CPULimitRatio, "cpu-limit-ratio", 0, "CPU limit as a multiple of the request; 0: no limit")
	f.Float64Var(&s.policy.MaxRatio, "max-ratio", s.policy.MaxRatio,
		"ratio of limit to request above which is a warning")
	return c
}

// answer is what is printed.
type answer struct {
	Containers []sizing.Advice    `json:"containers,omitempty"`
	Node       *sizing.NodeAdvice `json:"node,omitempty"`
}

func (s *sizeCommand) validate() error {
	sized := s.node != "" || s.cpu != "" || s.memory != ""
	switch {
	case len(s.usage) == 0 && !s.metricsAPI && !sized:
		return cli.UsageError(errors.New("nothing to calculate: name usage (--usage, --metrics-api) or a node " +
			"(--node, or --cpu and --memory)"))
	case s.node != "" && (s.cpu != "" || s.memory != "" || s.disk != ""):
		return cli.UsageError(errors.New("--node excludes --cpu, --memory and --disk"))
	case s.node == "" && sized && (s.cpu == "" || s.memory == ""):
		return cli.UsageError(errors.New("a node's size is --cpu and --memory"))
	case s.config != "" && !sized:
		return cli.UsageError(errors.New("--config is judged against a node's size: --node, or --cpu and --memory"))
	case !slices.Contains([]string{"", "text", "json", "svg", "yaml"}, s.Output):
		return cli.UsageError(fmt.Errorf("output %q: must be text, json, svg or yaml", s.Output))
	case s.Output == "yaml" && !sized:
		return cli.UsageError(errors.New("-o yaml is the KubeletConfiguration of a node: --node, or --cpu and " +
			"--memory"))
	case s.policy.MemoryHeadroom < 1:
		return cli.UsageError(fmt.Errorf("--memory-headroom %g: must be 1 or more", s.policy.MemoryHeadroom))
	case s.policy.CPULimitRatio != 0 && s.policy.CPULimitRatio < 1:
		return cli.UsageError(fmt.Errorf("--cpu-limit-ratio %g: must be 0, or 1 or more", s.policy.CPULimitRatio))
	case s.policy.MaxRatio < 1:
		return cli.UsageError(fmt.Errorf("--max-ratio %g: must be 1 or more", s.policy.MaxRatio))
	case s.every <= 0 || s.period < 0:
		return cli.UsageError(errors.New("--every must be positive, and --for not negative"))
	}
	return nil
}

func (s *sizeCommand) run(ctx context.Context) error {
	if err := s.validate(); err != nil {
		return err
	}
	var a answer
	series := sizing.Series{}
	for _, file := range s.usage {
		if err := s.read(file, series); err != nil {
			return err
		}
	}
	if s.metricsAPI {
		if err := s.measure(ctx, series); err != nil {
			return err
		}
	}
	a.Containers = sizing.Containers(series, s.policy)
	if (len(s.usage) > 0 || s.metricsAPI) && len(a.Containers) == 0 {
		return cli.WithFix(errors.New("there is no container in the usage that was read"),
			"series need a label or a column container; those of whole Pods are left out")
	}
	n, err := s.size(ctx)
	if err != nil {
		return err
	}
	if n != nil {
		advice := sizing.Node(*n)
		if s.config != "" {
			if advice.Warnings, err = check(s.config, *n); err != nil {
				return err
			}
		}
		a.Node = &advice
	}
	return s.write(a)
}

// check validates a configuration.
func check(path string, n sizing.NodeSize) ([]string, error) {
	l, err := kubeconfig.Load(kubeconfig.Sources{File: path})
	if err != nil {
		return nil, err
	}
	return sizing.Check(n, kubeconfig.Reserved(l.Config, n.Capacity())), nil
}

// size is the node's; nil: none was named.
func (s *sizeCommand) size(ctx context.Context) (*sizing.NodeSize, error) {
	if s.node != "" {
		return s.readNode(ctx)
	}
	if s.cpu == "" {
		return nil, nil
	}
	values := map[string]resource.Quantity{}
	for _, x := range []struct{ flag, text string }{{"--cpu", s.cpu}, {"--memory", s.memory}, {"--disk", s.disk}} {
		if x.text == "" {
			continue
		}
		q, err := resource.ParseQuantity(x.text)
		if err != nil || q.Sign() < 0 {
			return nil, cli.UsageError(fmt.Errorf("%s %q: must be a quantity", x.flag, x.text))
		}
		values[x.flag] = q
	}
	cpu, memory, disk := values["--cpu"], values["--memory"], values["--disk"]
	n := sizing.NodeSize{MilliCPU: cpu.MilliValue(), Memory: memory.Value(), Disk: disk.Value()}
	if err := sizing.CheckSize(n); err != nil {
		return nil, cli.UsageError(fmt.Errorf("--%w", err))
	}
	return &n, nil
}

// read adds a file of usage: its form is told by its first bytes.
func (s *sizeCommand) read(file string, into sizing.Series) error {
	of := sizing.Resource("")
	for _, r := range []sizing.Resource{sizing.CPU, sizing.Memory} {
		if rest, ok := strings.CutPrefix(file, string(r)+"="); ok {
			of, file = r, rest
		}
	}
	raw, err := []byte(nil), error(nil)
	if file == "-" {
		raw, err = io.ReadAll(s.in)
	} else {
		raw, err = os.ReadFile(file)
	}
	if err != nil {
		return err
	}
	text := bytes.TrimSpace(raw)
	switch {
	case len(text) == 0:
		err = errors.New("is empty")
	case text[0] == '{':
		err = sizing.ReadPrometheusJSON(bytes.NewReader(text), of, into)
	case text[0] == '#' || bytes.Contains(text[:min(len(text), 4096)], []byte("{")):
		err = sizing.ReadPrometheusText(bytes.NewReader(text), into)
	default:
		err = sizing.ReadCSV(bytes.NewReader(text), into)
	}
	if err != nil {
		return cli.WithFix(fmt.Errorf("%s: %w", file, err), "docs/user/node-pressure.md has the three forms")
	}
	return nil
}

func (s *sizeCommand) write(a answer) error {
	switch s.Output {
	case "json":
		return cli.WriteJSON(s.Out, a)
	case "svg":
		return sizing.Picture{Containers: a.Containers, Node: a.Node}.WriteSVG(s.Out)
	case "yaml":
		raw, err := yaml.Marshal(a.Node.Settings())
		if err == nil {
			_, err = s.Out.Write(raw)
		}
		return err
	}
	var b strings.Builder
	writeContainers(&b, a.Containers)
	if a.Node != nil {
		if err := writeNode(&b, a.Node); err != nil {
			return err
		}
	}
	_, err := io.WriteString(s.Out, b.String())
	return err
}

func writeContainers(b *strings.Builder, list []sizing.Advice) {
	if len(list) == 0 {
		return
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CONTAINER\tCPU AVERAGE\tP95\tREQUEST\tLIMIT\tMEMORY AVERAGE\tP95\tMOST\tREQUEST\tLIMIT\tRATIO")
	for _, a := range list {
		fmt.Fprintf(t, "%s\t%.0fm\t%.0fm\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.2f\n", a.Key, a.CPU.Average*1000,
			a.CPU.P95*1000,
			text(a.Request.CPU), text(a.Limit.CPU), bytesText(a.Memory.Average), bytesText(a.Memory.P95),
			bytesText(a.Memory.Max), text(a.Request.Memory), text(a.Limit.Memory), a.Ratio.Memory)
	}
	_ = t.Flush() // a strings.Builder does not fail
	for _, a := range list {
		for _, w := range a.Warnings {
			fmt.Fprintf(b, "warning: %s: %s\n", a.Key, w)
		}
	}
}

func text(q *resource.Quantity) string {
	if q == nil {
		return "none"
	}
	return q.String()
}

func bytesText(f float64) string { return strings.TrimPrefix(journal.Size(int64(f)), "about ") }

func writeNode(b *strings.Builder, a *sizing.NodeAdvice) error {
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	capacity := a.Size.Capacity()
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RESOURCE\tCAPACITY\tKUBE-RESERVED\tSYSTEM-RESERVED\tEVICTION\tALLOCATABLE")
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage} {
		all, known := capacity[name]
		if !known {
			continue
		}
		left, eviction := a.Allocatable[name], "0"
		switch name {
		case v1.ResourceMemory:
			eviction = a.Hard["memory.available"]
		case v1.ResourceEphemeralStorage:
			eviction = a.Hard["nodefs.available"]
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", name, all.String(), orZero(a.Kube[string(name)]),
			orZero(a.System[string(name)]), eviction, left.String())
	}
	_ = t.Flush() // a strings.Builder does not fail
	for _, w := range a.Warnings {
		fmt.Fprintf(b, "warning: %s\n", w)
	}
	raw, err := yaml.Marshal(a.Settings())
	fmt.Fprintf(b, "\n%s", raw)
	return err
}

func orZero(s string) string {
	if s == "" {
		return "0"
	}
	return s
}
