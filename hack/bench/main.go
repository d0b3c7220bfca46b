// Command bench measures Gantry on this machine: starting, resting, starting Pods, a node that
// fills, taking writes, names, Services.
//
//	bench                    measure all parts; each writes docs/performance/PART.json
//	bench -only start,dns    these parts alone; the files of the others stay as they are
//	bench -short             fewer repetitions, shorter rests; files go to build/performance
//	bench -render            measure nothing
//
// Then it renders docs/performance/README.md from the files there, but with -short.
//
// It runs instances of its own in new directories, on loopback and free ports, and removes them; it
// needs root and some twenty minutes. The figures of the scheduler come from hack/schedperf.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gantry-project/gantry/hack/bench/result"
	"github.com/gantry-project/gantry/test/images"
)

const (
	// image is what every Pod of the measurements runs.
	image = "docker.io/library/busybox:1.37"
	// resultsDir has the files that runs write, and the page.
	resultsDir = "docs/performance"
)

// bench is one run of the benchmark.
type bench struct {
	binary, binDir string
	archive        string // the image, made once
	only           string
	profiles       string // directory for CPU profiles of the parts that write
	number         int    // of the instances
	other          other  // a server to measure beside Gantry, where one is named
	upstream       string // directory of upstream's kubelet, controllers and sidecars, for the part volumes
	short          bool
	out            string // directory of the results
}

// part is a part that can be measured alone.
type part struct {
	name    string // as -only takes it
	measure func(context.Context) ([]result.Figure, error)
}

// parts returns all parts in the order in which they run.
func (b *bench) parts() []part {
	return []part{
		{"start", b.start}, {"idle", b.idle}, {"pods", b.pods}, {"latencies", b.latencies}, {"node", b.node},
		{"eviction", b.eviction}, {"managers", b.managers},
		{"api", b.api}, {"load", b.load}, {"dns", b.dns}, {"capacity", b.capacity},
		{"network/changes", b.changes}, {"network/connections", b.connections}, {"network/attachments", b.attachments},
		{"volumes", b.volumes},
	}
}

func main() {
	b, render := bench{}, false
	flag.StringVar(&b.binary, "gantry", "build/bin/gantry", "gantry to measure")
	flag.StringVar(&b.binDir, "bin-dir", "", "directory of runc, shim and CNI plugin (default: where gantry is)")
	flag.StringVar(&b.only, "only", "", "parts to measure, comma separated: "+strings.Join(names(b.parts()), ", ")+
		"; network is all of its parts")
	flag.StringVar(&b.profiles, "profile", "", "directory for CPU profiles of the parts api and load")
	flag.StringVar(&b.other.kubeconfig, "kubeconfig", "", "of another API server, for the parts api and load")
	flag.StringVar(&b.other.name, "name", "another API server", "its name and version, for the results")
	flag.StringVar(&b.other.pids, "pids", "", "its processes and its etcd's, comma separated: their CPU time counts")
	flag.IntVar(&b.number, "number", 0, "number of the instances, 1 to 99, for bridge and Pod addresses of their own")
	flag.StringVar(&b.upstream, "upstream", "build/upstream",
		"directory of what hack/upstream.sh builds, for the part volumes")
	flag.BoolVar(&b.short, "short", false, "fewer repetitions, a shorter rest")
	flag.BoolVar(&render, "render", false, "measure nothing, render "+resultsDir+"/README.md")
	flag.StringVar(&b.out, "o", "",
		"directory for the results (default: "+resultsDir+", with -short build/performance)")
	flag.Parse()
	b.out = cmp.Or(b.out, map[bool]string{false: resultsDir, true: "build/performance"}[b.short])
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if !render {
		err = b.run(ctx)
	}
	stop()
	if err == nil && (render || b.out == resultsDir) {
		err = writePage(resultsDir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func names(parts []part) (all []string) {
	for _, p := range parts {
		all = append(all, p.name)
	}
	return all
}

// chosen returns the parts selected by -only.
func (b *bench) chosen() ([]part, error) {
	if b.only == "" {
		err := b.upstreamIsThere()
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench: volumes is left out:", err)
		}
		return slices.DeleteFunc(b.parts(), func(p part) bool { return p.name == "volumes" && err != nil }), nil
	}
	var out []part
	wanted := strings.Split(b.only, ",")
	for _, p := range b.parts() {
		group, _, _ := strings.Cut(p.name, "/")
		if slices.Contains(wanted, p.name) || slices.Contains(wanted, group) {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("-only: none of %s is one of %s", b.only, strings.Join(names(b.parts()), ", "))
	}
	return out, nil
}

func (b *bench) run(ctx context.Context) error {
	parts, err := b.chosen()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gantry-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b.archive = filepath.Join(dir, "busybox.tar")
	if err := images.Archive(b.archive, images.Select(images.Standard(), image)); err != nil {
		return err
	}
	for _, p := range parts {
		if err := b.runPart(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// runPart measures a part, prints its figures and writes its file.
func (b *bench) runPart(ctx context.Context, p part) error {
	begin := time.Now()
	fmt.Fprintf(os.Stderr, "bench: %s …\n", p.name)
	r := result.Here(strings.ReplaceAll(p.name, "/", "-"), b.binary)
	if b.other.kubeconfig != "" && (p.name == "api" || p.name == "load") {
		r.Beside = b.other.name
	}
	if p.name == "volumes" {
		r.Beside = besideVolumes
	}
	var err error
	if r.Figures, err = p.measure(ctx); err != nil {
		return err
	}
	file := filepath.Join(b.out, r.Part+".json")
	fmt.Print(r.Table())
	fmt.Fprintf(os.Stderr, "bench: %s took %s; %s is written\n", p.name, time.Since(begin).Round(time.Second), file)
	return r.Write(file)
}

// times returns how often to repeat something.
func (b *bench) times(n int) int {
	if b.short {
		return max(1, n/5)
	}
	return n
}
