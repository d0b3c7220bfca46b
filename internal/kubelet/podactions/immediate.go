package podactions

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// stopPastRuntime is stopContainer on a node that is short of something: no signal waits until the
// runtime could start a program. The first process gets its stop signal here where the runtime has
// said which one it is, and the runtime is asked when it has ended; else the runtime sends it.
// Whatever is left after so many seconds is killed here, also while the runtime does not answer.
func (c *operation) stopPastRuntime(ctx context.Context, k podplan.Kill, seconds int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	deadline := time.NewTimer(time.Duration(seconds) * time.Second)
	defer deadline.Stop()
	ended, err := c.signalInit(ctx, k, seconds)
	if err != nil { // nothing was sent
		answer := make(chan error, 1)
		go func() { answer <- c.stopContainer(ctx, k, seconds) }()
		select {
		case err := <-answer:
			return err
		case <-deadline.C:
			c.kill(k)
			return <-answer
		}
	}
	select {
	case <-ended:
	case <-deadline.C:
		c.kill(k)
	}
	return c.executor.d.Runtime.StopContainer(ctx, k.ID, 0) // takes note; nothing of it runs any more
}

// signalInit sends the container's stop signal; after an error nothing was sent.
func (c *operation) signalInit(ctx context.Context, k podplan.Kill, seconds int64) (<-chan struct{}, error) {
	number := unix.SignalNum(k.StopSignal)
	if number == 0 {
		return nil, fmt.Errorf("the stop signal %q of container %s has no number", k.StopSignal, k.Name)
	}
	ended, err := c.executor.d.Processes.SignalInit(ctx, c.executor.d.Node.Resources.PodPath(c.pod), k.ID, number)
	if err != nil {
		return nil, err
	}
	c.put(journal.StopStep{Container: k.Name, Step: "TERM",
		Message: fmt.Sprintf("%s, past the runtime; KILL after %d s", k.StopSignal, seconds)})
	return ended, nil
}

// kill ends all that runs in the container; the runtime is asked in any case.
func (c *operation) kill(k podplan.Kill) {
	step := journal.StopStep{Container: k.Name, Step: "KILL", Message: "past the runtime"}
	if err := c.executor.d.Processes.KillContainer(c.executor.d.Node.Resources.PodPath(c.pod), k.ID); err != nil {
		step.Message = err.Error()
	}
	c.put(step)
}
