package podactions

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pass goes through the gate in a goroutine of its own.
func pass(t *testing.T, ctx context.Context, g *callLimiter, urgency int, do func() error) {
	go func() {
		if err := g.run(ctx, urgency, do); err != nil {
			t.Error(err)
		}
	}()
}

func TestCallLimiterPrefersContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newCallLimiter(1)
		var mu sync.Mutex
		var order []string
		ask := func(urgency int, name string) {
			pass(t, t.Context(), g, urgency, func() error {
				time.Sleep(100 * time.Millisecond)
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				return nil
			})
			synctest.Wait()
		}
		ask(sandboxPriority, "s1")
		ask(sandboxPriority, "s2")
		ask(containerPriority, "c1")
		ask(containerPriority, "c2")
		time.Sleep(time.Second)
		synctest.Wait()
		if got := strings.Join(order, " "); got != "s1 c1 c2 s2" {
			t.Errorf(`order = %q, want "s1 c1 c2 s2"`, got)
		}
		if g.free != 1 {
			t.Errorf("%d places free, want 1", g.free)
		}
	})
}

func TestCallLimiterDoesNotWaitForHungCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newCallLimiter(1)
		ctx, cancel := context.WithCancel(t.Context())
		pass(t, ctx, g, sandboxPriority, func() error { <-ctx.Done(); return nil })
		synctest.Wait()
		startedAt := time.Now()
		if err := g.run(ctx, sandboxPriority, func() error { return nil }); err != nil ||
			time.Since(startedAt) != maxQueueWait {
			t.Errorf("got %v, %v, want no error and time.Since(startedAt) %v", err, time.Since(startedAt), maxQueueWait)
		}
		cancel()
		synctest.Wait()
		if g.free != 1 {
			t.Errorf("%d places free, want 1", g.free)
		}
	})
}

func TestCallLimiterDropsCancelledCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newCallLimiter(1)
		hold := make(chan struct{})
		pass(t, t.Context(), g, sandboxPriority, func() error { <-hold; return nil })
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 1)
		go func() { errs <- g.run(ctx, sandboxPriority, func() error { return nil }) }()
		synctest.Wait()
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want an error Canceled", err)
		}
		close(hold)
		synctest.Wait()
		if g.free != 1 {
			t.Errorf("%d places free, want 1", g.free)
		}
	})
}
