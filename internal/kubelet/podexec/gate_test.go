package podexec

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
func pass(t *testing.T, ctx context.Context, g *gate, urgency int, do func() error) {
	go func() {
		if err := g.pass(ctx, urgency, do); err != nil {
			t.Error(err)
		}
	}()
}

func TestGateLetsContainersGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1)
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
		ask(beginning, "s1")
		ask(beginning, "s2")
		ask(finishing, "c1")
		ask(finishing, "c2")
		time.Sleep(time.Second)
		synctest.Wait()
		if got := strings.Join(order, " "); got != "s1 c1 c2 s2" {
			t.Error(got)
		}
		if g.free != 1 {
			t.Errorf("%d places free", g.free)
		}
	})
}

// row: PWK-01
func TestGateDoesNotWaitForWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1)
		ctx, cancel := context.WithCancel(t.Context())
		pass(t, ctx, g, beginning, func() error { <-ctx.Done(); return nil })
		synctest.Wait()
		begin := time.Now()
		if err := g.pass(ctx, beginning, func() error { return nil }); err != nil || time.Since(begin) != patience {
			t.Error(err, time.Since(begin))
		}
		cancel()
		synctest.Wait()
		if g.free != 1 {
			t.Errorf("%d places free", g.free)
		}
	})
}

func TestGateForgetsWhoGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1)
		hold := make(chan struct{})
		pass(t, t.Context(), g, beginning, func() error { <-hold; return nil })
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 1)
		go func() { errs <- g.pass(ctx, beginning, func() error { return nil }) }()
		synctest.Wait()
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		close(hold)
		synctest.Wait()
		if g.free != 1 {
			t.Errorf("%d places free", g.free)
		}
	})
}
