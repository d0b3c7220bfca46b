package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gantry-project/gantry/hack/bench/result"
	"github.com/gantry-project/gantry/test/instance"
)

// milestones of one start, from exec.
type milestones struct{ api, node, pod time.Duration }

// start measures `gantry up`, executed several times, from before exec to three milestones: /readyz
// answers (asked every 5 ms over HTTPS with the administrator's certificate), the node is Ready, a
// first Pod runs. The Pod is created as soon as the API takes it; its image lies in the data
// directory as an archive. Three kinds of start: in a new directory (certificates, etcd's files and
// the image's import included), in the same one after containerd and Pods were stopped, and one
// that adopts a containerd and Pods that had run on.
func (b *bench) start(ctx context.Context) ([]result.Figure, error) {
	var all [3][]milestones
	for n := range b.times(5) {
		i, err := b.newInstance(instance.Options{})
		if err != nil {
			return nil, err
		}
		of, err := b.threeStarts(ctx, i, n)
		if err = errors.Join(err, i.Remove()); err != nil {
			return nil, err
		}
		for k, m := range of {
			all[k] = append(all[k], m)
		}
	}
	var figures []result.Figure
	for k, kind := range []string{"new directory", "ran on", "stopped"} {
		var api, node, pod []time.Duration
		for _, m := range all[k] {
			api, node, pod = append(api, m.api), append(node, m.node), append(pod, m.pod)
		}
		figures = append(figures, result.Durations(kind+"/readyz", api), result.Durations(kind+"/node Ready", node),
			result.Durations(kind+"/first Pod Running", pod))
	}
	return figures, nil
}

// threeStarts starts an instance in a new directory, again while its Pods run, and again after they
// were stopped.
func (b *bench) threeStarts(ctx context.Context, i *instance.Instance, n int) (of [3]milestones, err error) {
	if of[0], err = b.startOnce(ctx, i, fmt.Sprintf("first-%d", n)); err != nil {
		return of, err
	}
	if err := i.Stop(); err != nil {
		return of, err
	}
	if of[1], err = b.startOnce(ctx, i, fmt.Sprintf("second-%d", n)); err != nil {
		return of, err
	}
	if err := b.stopAll(ctx, i); err != nil {
		return of, err
	}
	of[2], err = b.startOnce(ctx, i, fmt.Sprintf("third-%d", n))
	return of, err
}

// startOnce starts an instance and returns when it reached each milestone.
func (b *bench) startOnce(ctx context.Context, i *instance.Instance, pod string) (milestones, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	begin := time.Now()
	var m milestones
	if err := i.Start(); err != nil {
		return m, err
	}
	if err := i.WaitAPI(ctx); err != nil {
		return m, err
	}
	m.api = time.Since(begin)
	c, err := connect(ctx, i)
	if err != nil {
		return m, err
	}
	ran := make(chan error, 1)
	go func() {
		err := c.firstPod(ctx, pod)
		m.pod = time.Since(begin)
		ran <- err
	}()
	nodeErr := c.nodeReady(ctx)
	m.node = time.Since(begin)
	if err := <-ran; err != nil {
		return m, err
	}
	return m, nodeErr
}

// stopAll stops Gantry, its Pods and its containerd, as `gantry up --stop-pods` does at its end.
func (b *bench) stopAll(ctx context.Context, i *instance.Instance) error {
	if err := i.Stop(); err != nil {
		return err
	}
	i.Flags("--stop-pods")
	defer i.Flags()
	if err := i.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := i.WaitAPI(ctx); err != nil {
		return err
	}
	c, err := connect(ctx, i)
	if err != nil {
		return err
	}
	if err := c.nodeReady(ctx); err != nil {
		return err
	}
	return i.Stop()
}
