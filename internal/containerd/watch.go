package containerd

import (
	"context"
	"fmt"
	"time"
)

// A containerd that keeps dying young is started again after a growing pause; one that lived this long is started again at once.
const (
	ripeAge   = 10 * time.Second
	firstLag  = 100 * time.Millisecond
	lastLag   = 10 * time.Second
	neverDied = time.Duration(-1)
)

// watch starts containerd again whenever it dies, until ctx ends.
func (c *Child) watch(ctx context.Context, config []byte) {
	defer c.watching.Done()
	born, lag := time.Now(), neverDied
	for {
		c.mu.Lock()
		proc := c.proc
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-proc.gone:
		}
		c.cfg.tell(Event{What: Died, PID: proc.pid, Err: fmt.Errorf("containerd (process %d) ended after %s; its log is %s", proc.pid, time.Since(born).Round(time.Millisecond), c.cfg.logFile())})
		lag = nextLag(lag, time.Since(born))
		next := c.revive(ctx, config, lag)
		if next == nil {
			return
		}
		proc.release()
		c.mu.Lock()
		c.proc = next
		c.mu.Unlock()
		born = time.Now()
	}
}

// nextLag is the pause before a restart: none after a ripe age or the first death, then growing.
func nextLag(last, age time.Duration) time.Duration {
	switch {
	case age >= ripeAge || last == neverDied:
		return 0
	case last == 0:
		return firstLag
	default:
		return min(2*last, lastLag)
	}
}

// revive tries until containerd runs again; nil when ctx ended first.
func (c *Child) revive(ctx context.Context, config []byte, lag time.Duration) *process {
	for {
		timer := time.NewTimer(lag)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		begin := time.Now()
		// Not cut short by ctx: a containerd that is half up is left running for the next Gantry.
		proc, err := c.cfg.launch(context.WithoutCancel(ctx), config)
		if err == nil {
			c.cfg.tell(Event{What: Restarted, PID: proc.pid, Took: time.Since(begin)})
			return proc
		}
		c.cfg.tell(Event{What: Failed, Err: err})
		lag = max(firstLag, min(2*lag, lastLag))
	}
}
