package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gantry-project/gantry/test/replay/instance"
)

// milestones of one start, from exec.
type milestones struct{ api, node, pod time.Duration }

// starts measures `gantry up`: in a new directory, in the same directory when everything had been stopped, and when containers and containerd had run on.
func (b *bench) starts(ctx context.Context) error {
	var cold, stopped, ran []milestones
	for n := range b.times(5) {
		i, err := b.fresh()
		if err != nil {
			return err
		}
		err = func() error {
			m, err := b.start(ctx, i, fmt.Sprintf("first-%d", n))
			if err != nil {
				return err
			}
			cold = append(cold, m)
			if err := i.Stop(); err != nil {
				return err
			}
			if m, err = b.start(ctx, i, fmt.Sprintf("second-%d", n)); err != nil {
				return err
			}
			ran = append(ran, m)
			if err := b.stopAll(ctx, i); err != nil {
				return err
			}
			if m, err = b.start(ctx, i, fmt.Sprintf("third-%d", n)); err != nil {
				return err
			}
			stopped = append(stopped, m)
			return nil
		}()
		if removeErr := i.Remove(); err == nil {
			err = removeErr
		}
		if err != nil {
			return err
		}
	}
	row := func(name string, list []milestones) []string {
		pick := func(of func(milestones) time.Duration) string {
			var d []time.Duration
			for _, m := range list {
				d = append(d, of(m))
			}
			return ms(quantile(d, 0.5))
		}
		return []string{name, pick(func(m milestones) time.Duration { return m.api }), pick(func(m milestones) time.Duration { return m.node }), pick(func(m milestones) time.Duration { return m.pod })}
	}
	b.page.add(section{
		Title: "Starting",
		How: fmt.Sprintf("`gantry up` is executed %d times; the clock starts before exec. /readyz is asked every 5 ms over HTTPS with the administrator's certificate, the node and the Pod are watched. "+
			"The Pod is created as soon as the API takes it, with an image that lies in the data directory as an archive. *New directory* includes making certificates and etcd's files and importing the image; "+
			"*stopped* is a start in a directory whose containerd and Pods had been stopped; *ran on* adopts a containerd and Pods that had run on.", b.times(5)),
		Head:   []string{"Start (median, ms)", "/readyz", "node Ready", "first Pod Running"},
		Rows:   [][]string{row("new directory", cold), row("stopped", stopped), row("ran on", ran)},
		Budget: "/readyz ≤ 1,000 ms; node Ready ≤ 2,000 ms; first Pod Running ≤ 3,000 ms with the image unpacked",
	})
	return nil
}

// start starts an instance and takes the times.
func (b *bench) start(ctx context.Context, i *instance.Instance, pod string) (milestones, error) {
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

// stopAll ends Gantry, its Pods and its containerd, as `gantry up --stop-pods` does at its end.
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
