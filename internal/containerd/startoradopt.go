package containerd

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errKilled means that a signal ended containerd: that is no fault of its configuration, so a retry
// may succeed.
var errKilled = errors.New("it was killed")

// ended returns an error that says how the process ended; it wraps errKilled if a signal ended it,
// or if that is not known.
func (c Config) ended(proc *process) error {
	how := errKilled
	if proc.exit != nil {
		state := <-proc.exit
		if s, ok := state.Sys().(syscall.WaitStatus); !ok || !s.Signaled() {
			return fmt.Errorf("containerd ended while it started; its log is %s", c.logFile())
		}
		how = fmt.Errorf("%w (%s)", errKilled, state)
	}
	return fmt.Errorf("containerd ended while it started: %w; its log is %s", how, c.logFile())
}

// isUnavailable reports whether err means that nothing answers on the socket now.
func isUnavailable(err error) bool {
	return errdefs.IsUnavailable(err) || status.Code(err) == codes.Unavailable
}

// startOrAdopt starts or adopts containerd with everything that Start promises, and sets c.proc. It
// retries while containerd is killed.
func (c *Child) startOrAdopt(ctx context.Context, config []byte) (EventKind, error) {
	delay := noRestartYet
	for born := time.Now(); ; born = time.Now() {
		what, rescan, err := c.attempt(ctx, config)
		if err == nil || !rescan || ctx.Err() != nil {
			return what, err
		}
		c.cfg.notify(Event{Kind: Failed, Err: err})
		delay = nextRestartDelay(delay, time.Since(born))
		select {
		case <-ctx.Done():
			return what, err
		case <-time.After(delay):
		}
	}
}

// attempt is one try of startOrAdopt; if it returns true another one may succeed.
func (c *Child) attempt(ctx context.Context, config []byte) (what EventKind, rescan bool, err error) {
	proc, err := c.cfg.adopt(ctx, config)
	if err != nil {
		return "", false, err
	}
	what = Adopted
	if proc == nil {
		what = Started
		if proc, err = c.cfg.launch(ctx, config); err != nil {
			return what, errors.Is(err, errKilled), err
		}
	}
	if err = errors.Join(c.ensurePause(ctx), c.images.scan(ctx)); err == nil {
		c.proc = proc
		return what, false, nil
	}
	defer proc.release()
	if proc.hasExited() || isUnavailable(err) {
		return what, true, err
	}
	if what == Started {
		err = errors.Join(err, proc.terminate(ctx, stopGrace))
	}
	return what, false, err
}

// hasExited reports whether the process has ended.
func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}
