// Command schedperf measures schedulers with the shapes of Kubernetes' scheduler_perf and with the
// openb trace: in memory, and through an API server.
//
//	schedperf memory                         decisions of Gantry's plugins without any API server
//	schedperf openb -dir data/openb          the trace in memory, and grown to 100,000 nodes;
//	                                         with -gantry or -kubeconfig through an API server
//	schedperf api -gantry build/bin/gantry   `gantry server` and `gantry scheduler`, two processes
//	schedperf api -other kube-scheduler      another scheduler's program in turns with ours on one
//	                                         `gantry server`: both, and the ratio
//	schedperf api -kubeconfig F -scheduler-name other -pid N
//	                                         another scheduler on an API server that runs already
//
// Each prints a table and, with -o, writes the figures to a file as hack/bench/result keeps them.
// `make schedperf` writes docs/performance/schedperf-*.json, of which hack/bench renders the page.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/gantry-project/gantry/hack/bench/result"
)

// options are the flags of all verbs.
type options struct {
	only   string
	nodes  string
	pods   int
	first  int
	shadow bool
	dir    string
	grow   int
	gantry string
	running
	compared comparedScheduler
	creators int
	config   string
	profile  string
	out      string
}

// running is a running scheduler and its API server.
type running struct {
	kubeconfig string
	scheduler  string // spec.schedulerName of the Pods
	pid        int    // of the scheduler
}

func main() {
	verb := "memory"
	args := os.Args[1:]
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		verb, args = args[0], args[1:]
	}
	var o options
	f := flag.NewFlagSet(verb, flag.ExitOnError)
	f.StringVar(&o.only, "only", "", "shapes to run, comma separated (default: all)")
	f.StringVar(&o.nodes, "nodes", "500,5000", "numbers of nodes")
	f.IntVar(&o.pods, "pods", 0, "measured Pods (default: by shape)")
	f.IntVar(&o.first, "first", 0,
		"api: most Pods before the measured ones, where they need not fill the nodes (default: by shape)")
	f.BoolVar(&o.shadow, "plain", false,
		"memory: ask every plugin about every node, without columns and cached results")
	f.StringVar(&o.dir, "dir", os.Getenv("GANTRY_OPENB"), "openb: directory of the trace")
	f.IntVar(&o.grow, "grow", 100000, "openb: nodes of the grown cluster; 0: none")
	f.StringVar(&o.gantry, "gantry", "", "gantry to run: a server and a scheduler (api: build/bin/gantry)")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "api: API server that runs already")
	f.StringVar(&o.scheduler, "scheduler-name", "default-scheduler", "api: spec.schedulerName of the Pods")
	f.IntVar(&o.pid, "pid", 0, "api: process of the scheduler, for its CPU time and memory")
	f.StringVar(&o.compared.program, "other", "",
		"api: another scheduler's program, measured in turns with ours; it must take --config as kube-scheduler does")
	f.StringVar(&o.compared.name, "other-name", "",
		"api: its name and version, for the results (default: the program's)")
	f.IntVar(&o.compared.rounds, "rounds", 2, "api: turns of each scheduler, with -other")
	f.StringVar(&o.compared.logs, "logs", "", "api: directory for what the schedulers print, with -other")
	f.IntVar(&o.creators, "creators", 16, "api: concurrent clients that create Pods")
	f.StringVar(&o.config, "config", "",
		"api: KubeSchedulerConfiguration of `gantry scheduler` (default: every node is scored)")
	f.StringVar(&o.profile, "cpuprofile", "",
		"api: run the scheduler inside this process and write a profile of both; CPU time is then that of both")
	f.StringVar(&o.out, "o", "", "file for the figures as JSON")
	_ = f.Parse(args)
	if verb == "api" && o.gantry == "" {
		o.gantry = "build/bin/gantry"
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	verbs := map[string]func(context.Context, options) ([]row, error){"memory": inMemory, "openb": openb,
		"api": throughAPI}
	run := verbs[verb]
	if verb == "api" && o.compared.program != "" {
		run = sideBySide
	}
	if run == nil {
		fmt.Fprintf(os.Stderr, "schedperf: %q is not one of memory, openb, api\n", verb)
		os.Exit(2)
	}
	kept := result.Here(o.part(verb), o.gantry)
	rows, err := run(ctx, o)
	fmt.Print(table(rows))
	if o.out != "" && len(rows) > 0 { // what was measured before a failure is kept
		err = errors.Join(err, o.keep(kept, rows))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "schedperf:", err)
		os.Exit(1)
	}
}

// keep writes the rows to the file of -o.
func (o options) keep(run result.Run, rows []row) error {
	latency := "create → bound"
	if o.inMemory(run.Part) {
		latency = "decision"
	}
	run.Part = "schedperf-" + run.Part
	if o.compared.program != "" {
		run.Beside = cmp.Or(o.compared.name, filepath.Base(o.compared.program))
	}
	run.Figures = figures(rows, latency)
	return run.Write(o.out)
}

// part returns the name of a verb's results.
func (o options) part(verb string) string {
	switch {
	case verb == "api" && o.compared.program != "":
		return "beside"
	case verb == "openb" && !o.inMemory(verb):
		return "openb-api"
	}
	return verb
}

// inMemory reports whether a part uses no API server.
func (o options) inMemory(part string) bool {
	return part == "memory" || part == "openb" && o.gantry == "" && o.kubeconfig == ""
}

// chosen calls each for the selected shapes and sizes.
func (o options) chosen(each func(s workload, nodes int) error) error {
	for _, size := range strings.Split(o.nodes, ",") {
		n, err := strconv.Atoi(size)
		if err != nil {
			return fmt.Errorf("-nodes: %w", err)
		}
		for _, s := range workloads {
			if o.only != "" && !strings.Contains(","+o.only+",", ","+s.name+",") {
				continue
			}
			if err := each(s, n); err != nil {
				return fmt.Errorf("%s at %d nodes: %w", s.name, n, err)
			}
		}
	}
	return nil
}
