package crifake

import (
	"context"
	"strings"

	"golang.org/x/sys/unix"
)

// SignalInit signals a container's process past the CRI, as one may who finds it in its cgroup.
// ended is closed when the process has ended, or when ctx has.
func (f *Fake) SignalInit(ctx context.Context, _, id string, s unix.Signal) (ended <-chan struct{}, err error) {
	f.mu.Lock()
	c, err := f.container(id)
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	c.proc.signal(strings.TrimPrefix(unix.SignalName(s), "SIG"))
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-c.proc.done:
		case <-ctx.Done():
		}
	}()
	return over, nil
}

// KillContainer kills a container's process past the CRI.
func (f *Fake) KillContainer(_, id string) error {
	f.mu.Lock()
	c, err := f.container(id)
	f.mu.Unlock()
	if err == nil {
		c.kill()
	}
	return nil
}
