package containerd

import (
	"context"
	"fmt"
	"time"
)

// Delays between restarts of a containerd that keeps dying early; one that lived at least this long
// is restarted at once.
const (
	stableAge         = 10 * time.Second
	firstRestartDelay = 100 * time.Millisecond
	maxRestartDelay   = 10 * time.Second
	noRestartYet      = time.Duration(-1)
)

// watch restarts containerd whenever it dies, until ctx ends.
func (c *Child) watch(ctx context.Context, config []byte) {
	defer c.watching.Done()
	born, delay := time.Now(), noRestartYet
	for {
		c.mu.Lock()
		proc := c.proc
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-proc.exited:
		}
		c.cfg.notify(Event{Kind: Died, PID: proc.pid,
			Err: fmt.Errorf("containerd (process %d) ended after %s; its log is %s", proc.pid,
				time.Since(born).Round(time.Millisecond), c.cfg.logFile())})
		delay = nextRestartDelay(delay, time.Since(born))
		next := c.restart(ctx, config, delay)
		if next == nil {
			return
		}
		proc.release()
		born = time.Now()
	}
}

// nextRestartDelay returns the delay before a restart: none after a long life or the first death,
// then growing.
func nextRestartDelay(last, age time.Duration) time.Duration {
	switch {
	case age >= stableAge || last == noRestartYet:
		return 0
	case last == 0:
		return firstRestartDelay
	default:
		return min(2*last, maxRestartDelay)
	}
}

// restart tries until containerd runs, and makes it the child; nil if ctx ended first.
func (c *Child) restart(ctx context.Context, config []byte, delay time.Duration) *process {
	for {
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		startedAt := time.Now()
		// Not cancelled by ctx: a containerd that is starting is left for the next Gantry.
		proc, err := c.cfg.launch(context.WithoutCancel(ctx), config)
		if err == nil {
			c.mu.Lock()
			c.proc = proc // before the event: its receivers ask for the PID
			c.mu.Unlock()
			c.cfg.notify(Event{Kind: Restarted, PID: proc.pid, Took: time.Since(startedAt)})
			return proc
		}
		c.cfg.notify(Event{Kind: Failed, Err: err})
		delay = max(firstRestartDelay, min(2*delay, maxRestartDelay))
	}
}
