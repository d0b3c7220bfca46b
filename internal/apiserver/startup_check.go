package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// startupCheck is a step of the start that is repeated until it succeeds. It is also a readiness
// check, which fails until then with the step's error: /readyz/<name> has it for those who may read
// it, and so has the log; /readyz?verbose names the check and withholds the error, as the library
// does.
type startupCheck struct {
	name string

	mu   sync.Mutex
	done bool
	err  error // of the last attempt
}

// Name implements healthz.HealthChecker.
func (t *startupCheck) Name() string { return t.name }

// Check implements healthz.HealthChecker.
func (t *startupCheck) Check(*http.Request) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.done:
		return nil
	case t.err == nil:
		return errors.New("not tried yet")
	}
	return fmt.Errorf("not written yet: %w", t.err)
}

// logAfter is how long a step may fail before it is logged: at first admission refuses writes until
// its informers have synced.
const logAfter = 3 * time.Second

// run calls step until it succeeds or ctx ends. An error is logged when it has lasted for logAfter,
// and again whenever it changes.
func (t *startupCheck) run(ctx context.Context, step func() error) {
	wait := time.NewTimer(0)
	defer wait.Stop()
	started, message := time.Now(), ""
	for tries := 1; ; tries++ {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		err := step()
		t.mu.Lock()
		t.done, t.err = err == nil, err
		t.mu.Unlock()
		if err == nil {
			return
		}
		if time.Since(started) >= logAfter && err.Error() != message {
			message = err.Error()
			klog.FromContext(ctx).Error(err, "A step of the start fails; trying on", "step", t.name, "tries", tries)
		}
		wait.Reset(retryDelay(tries))
	}
}

// retryDelay returns the delay after a number of failed attempts: 10 ms at first, a quarter more
// each time, two seconds at most.
func retryDelay(tries int) time.Duration {
	const longest = 2 * time.Second
	d := 10 * time.Millisecond
	for ; tries > 1 && d < longest; tries-- {
		d += d / 4
	}
	return min(d, longest)
}
