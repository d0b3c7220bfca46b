// Command bench measures Gantry on this machine and writes docs/PERFORMANCE.md: starting, resting, starting Pods, a node that fills, taking writes, Services.
//
// It runs instances of its own in new directories, on loopback and free ports, and removes them; it needs root and some fifteen minutes.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/replay/instance"
)

// image is what every Pod of the measurements runs.
const image = "docker.io/library/busybox:1.37"

// bench is one run.
type bench struct {
	binary, binDir string
	archive        string // the image, made once
	only           string
	profiles       string // directory for processor profiles of the parts that write
	number         int    // of the instances
	other          other  // a server to measure beside Gantry, where one is named
	short          bool
	page           page
}

func main() {
	b := bench{}
	out := ""
	flag.StringVar(&b.binary, "gantry", "build/bin/gantry", "gantry to measure")
	flag.StringVar(&b.binDir, "bin-dir", "", "directory of runc, shim and CNI plugin (default: where gantry is)")
	flag.StringVar(&b.only, "only", "", "measure only these, comma separated: start, idle, pods, promises, node, api, load, dns, network (all of it, or network/changes, network/connections, network/attachments); the page keeps its other sections")
	flag.StringVar(&b.profiles, "profile", "", "directory for processor profiles of the parts api and load")
	flag.StringVar(&b.other.kubeconfig, "kubeconfig", "", "of another API server, measured in turns with Gantry by the parts api and load")
	flag.StringVar(&b.other.name, "name", "other", "its name in the table")
	flag.StringVar(&b.other.pids, "pids", "", "its processes and its etcd's, comma separated: their processor time counts")
	flag.IntVar(&b.number, "number", 0, "number of the instances, 1 to 99, where others run on the machine: it chooses bridge and Pod addresses")
	flag.BoolVar(&b.short, "short", false, "fewer repetitions, a shorter rest; then nothing is written")
	flag.StringVar(&out, "o", "docs/PERFORMANCE.md", "page to write")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := b.run(ctx)
	stop()
	if err == nil && !b.short {
		err = b.page.write(out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "gantry-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b.archive = filepath.Join(dir, "busybox.tar")
	if err := images.Archive(b.archive, images.Only(images.Standard(), image)); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{{"start", b.starts}, {"idle", b.idle}, {"pods", b.pods}, {"promises", b.promises}, {"node", b.node}, {"api", b.creates}, {"load", b.loads}, {"dns", b.names},
		{"network/changes", b.changes}, {"network/connections", b.connections}, {"network/attachments", b.attachments}} {
		group, _, _ := strings.Cut(part.name, "/")
		if only := "," + b.only + ","; b.only != "" && !strings.Contains(only, ","+part.name+",") && !strings.Contains(only, ","+group+",") {
			continue
		}
		begin := time.Now()
		fmt.Fprintf(os.Stderr, "bench: %s …\n", part.name)
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		fmt.Fprintf(os.Stderr, "bench: %s took %s\n", part.name, time.Since(begin).Round(time.Second))
	}
	fmt.Print(b.page.tables())
	return nil
}

// times is how often something is repeated.
func (b *bench) times(n int) int {
	if b.short {
		return max(1, n/5)
	}
	return n
}

// fresh makes an instance with the image ready to be imported at its first start.
func (b *bench) fresh(flags ...string) (*instance.Instance, error) {
	return b.made(instance.Options{Flags: flags})
}

// made is fresh with other options than flags.
func (b *bench) made(o instance.Options) (*instance.Instance, error) {
	o.Binary, o.BinDir, o.NodeIP, o.Number = b.binary, b.binDir, "127.0.0.1", b.number
	i, err := instance.New(o)
	if err != nil {
		return nil, err
	}
	at := filepath.Join(i.Dir, "images")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(b.archive)
	if err != nil {
		return nil, err
	}
	return i, os.WriteFile(filepath.Join(at, "busybox.tar"), raw, 0o644)
}

// remove takes an instance away; what could not be removed is told, the figures stand.
func (b *bench) remove(i *instance.Instance) {
	if err := i.Remove(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// running starts an instance and waits until its node is ready and can run Pods.
func (b *bench) running(ctx context.Context, flags ...string) (*instance.Instance, *cluster, error) {
	i, err := b.fresh(flags...)
	if err != nil {
		return nil, nil, err
	}
	if err := i.Start(); err != nil {
		return i, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := i.WaitAPI(ctx); err != nil {
		return i, nil, err
	}
	c, err := connect(ctx, i)
	if err != nil {
		return i, nil, err
	}
	if err := c.nodeReady(ctx); err != nil {
		return i, nil, err
	}
	return i, c, c.firstPod(ctx, "warm-up")
}
