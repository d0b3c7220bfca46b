// Command lifediff has the same Pods live on a node of upstream's kubelet and on one of Gantry's,
// and prints where what clients see of them differs.
//
//	lifediff -kubelet PROGRAM [-run REGEXP] [-random N -seed N] [-recorded] [-parallel N] [-v]
//	lifediff -print -random N -seed N
//
// Both nodes belong to one cluster of Gantry's API server and have containerd of the same version
// and configuration, each in a network namespace of its own. A life (lives/*.yaml, or drawn by
// seed) is the steps of test/replay/pods: what is created, changed and deleted, and what is waited
// for. It is lived on both nodes at once, and what a watch delivers of Pods and Events is compared
// as with upstream's recorded lives. A life that differs is lived again, twice on upstream's node:
// what upstream does not repeat, and what Gantry does not repeat, is no difference.
//
// intended.yaml lists the differences that are decisions. Any other difference is exit code 1. What
// was seen goes to build/lives.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/test/replay/pods"
)

// options are the flags.
type options struct {
	only     *regexp.Regexp
	kubelet  string
	gantry   string
	lives    string
	recorded bool
	random   int
	seed     uint64
	print    bool
	parallel int
	verbose  bool
	out      string
	runtime  string // run containerd in this data directory, and nothing else
	keep     bool
}

// inside says to the program that it is in the network namespace of the first node.
const inside = "GANTRY_LIFEDIFF_INSIDE"

func main() {
	o, only := options{}, ""
	flag.StringVar(&only, "run", "", "regular expression of the lives, as area/name")
	flag.StringVar(&o.kubelet, "kubelet", "", "upstream's kubelet")
	flag.StringVar(&o.gantry, "gantry", "build/bin/gantry", "gantry, with runc, the shim and CNI plugins beside it")
	flag.StringVar(&o.lives, "lives", "hack/lifediff/lives", "directory of the lives")
	flag.BoolVar(&o.recorded, "recorded", false, "live those of test/recordings/pods that the node decides too")
	flag.IntVar(&o.random, "random", 0, "so many lives drawn by the seed, instead of the written ones")
	flag.Uint64Var(&o.seed, "seed", 1, "what to draw them by")
	flag.BoolVar(&o.print, "print", false, "only print the lives that are drawn")
	flag.IntVar(&o.parallel, "parallel", 5, "lives at once")
	flag.BoolVar(&o.verbose, "v", false, "print the intended differences too")
	flag.StringVar(&o.out, "o", "build/lives", "directory for what was seen")
	flag.StringVar(&o.runtime, "containerd", "", "only run containerd in this directory (used by the program itself)")
	flag.BoolVar(&o.keep, "keep", false, "leave both nodes running until the program is interrupted")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if o.only, err = regexp.Compile(only); err == nil {
		switch {
		case o.runtime != "":
			err = runContainerd(ctx, o)
		case o.print:
			var text []byte
			if text, err = yaml.Marshal(draw(o.seed, o.random)); err == nil {
				_, err = os.Stdout.Write(text)
			}
		case os.Getenv(inside) == "":
			err = enter(ctx)
		default:
			err = run(ctx, o)
		}
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lifediff:", err)
		os.Exit(1)
	}
}

// enter runs this program again in a network namespace of its own.
func enter(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("real containers run: needs root")
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd.Run()
}

func run(ctx context.Context, o options) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(o.out, "client.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	keepLogs(log)
	lives, err := o.load()
	if err != nil {
		return err
	}
	known, err := loadIntended("hack/lifediff/intended.yaml")
	if err != nil {
		return err
	}
	p, err := newPair(ctx, o)
	if err != nil {
		return err
	}
	r := &comparison{options: o, pair: p, intended: known}
	r.all(ctx, lives)
	if o.keep {
		fmt.Fprintln(os.Stderr, "both nodes run on until Ctrl-C; kubeconfig:", p.gantry.Kubeconfig())
		<-ctx.Done()
	}
	err = errors.Join(p.remove(), ctx.Err())
	if found := r.show(os.Stdout); err == nil && found > 0 {
		err = fmt.Errorf("%d lives differ; what was seen of them is in %s", found, o.out)
	}
	return err
}

// keepLogs sends the log of client libraries to a file.
func keepLogs(w io.Writer) {
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	for k, v := range map[string]string{"logtostderr": "false", "alsologtostderr": "false",
		"stderrthreshold": "FATAL"} {
		_ = fs.Set(k, v) // these flags exist
	}
	klog.SetOutput(w)
}

// load reads or draws the lives.
func (o options) load() ([]pods.Case, error) {
	var out []pods.Case
	var err error
	if o.random > 0 {
		out, err = randomLives(o.seed, o.random)
	} else {
		out, err = writtenLives(o.lives)
	}
	if err != nil {
		return nil, err
	}
	if o.recorded {
		recorded, err := pods.Load("test/recordings/pods")
		if err != nil {
			return nil, err
		}
		for _, c := range recorded {
			if livesOnOneNode(c) {
				c.Recorded = pods.Recording{}
				c.Area = "recorded-" + c.Area
				out = append(out, c)
			}
		}
	}
	var picked []pods.Case
	for _, c := range out {
		if o.only.MatchString(c.Area + "/" + c.Name) {
			picked = append(picked, c)
		}
	}
	if len(picked) == 0 {
		return nil, fmt.Errorf("no life matches %q", o.only)
	}
	return picked, nil
}

// schedulerAreas are the recorded areas in which others than the kubelet decide.
var schedulerAreas = []string{"controllers", "drain", "endpoints", "eviction", "preemption", "scheduling", "node"}

// livesOnOneNode reports whether a recorded case is a node's: one that creates its Pods itself.
func livesOnOneNode(c pods.Case) bool {
	for _, area := range schedulerAreas {
		if c.Area == area {
			return false
		}
	}
	return !strings.Contains(c.Name, "unscheduled")
}
