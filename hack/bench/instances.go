package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gantry-project/gantry/test/instance"
)

// newInstance returns an instance that imports the image at its first start.
func (b *bench) newInstance(o instance.Options) (*instance.Instance, error) {
	o.Binary, o.BinDir, o.Number = b.binary, b.binDir, b.number
	if !o.Split { // a server alone has no kubelet on loopback to proxy to
		o.NodeIP = "127.0.0.1"
	}
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

// remove removes an instance; errors are printed, the figures stay valid.
func (b *bench) remove(i *instance.Instance) {
	if err := i.Remove(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// running starts an instance and waits until its node is ready and can run Pods.
func (b *bench) running(ctx context.Context, flags ...string) (*instance.Instance, *cluster, error) {
	return b.runningWith(ctx, instance.Options{Flags: flags})
}

func (b *bench) runningWith(ctx context.Context, o instance.Options) (*instance.Instance, *cluster, error) {
	i, err := b.newInstance(o)
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
